package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
)

// TestSilentConnectionsDoNotHoldUpTheEnd: what has asked for nothing, or for the half of something, is not waited for.
func TestSilentConnectionsDoNotHoldUpTheEnd(t *testing.T) {
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", ""
	cfg.Endpoints = []discovery.EndpointConfig{{URL: "http://127.0.0.1:1", Name: "e"}}
	r, err := start(context.Background(), &cfg, thisBuild(), slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	for _, said := range []string{"", "GET /he", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, said); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	if _, err := conns[2].Read(make([]byte, 1000)); err != nil { // those before it are accepted
		t.Fatal(err)
	}
	if err := r.stop(t.Context()); err != nil { // whose time is up with the test's
		t.Error(err)
	}
}

// TestCollectorThatHangs: what does not reach a collector that hangs does not make the end of the router a failure, as
// the supervisor would see it.
func TestCollectorThatHangs(t *testing.T) {
	hang, cancel := context.WithCancel(context.Background())
	at := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang.Done() }))
	defer at.Close()
	defer cancel()
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", ""
	cfg.Endpoints = []discovery.EndpointConfig{{URL: "http://127.0.0.1:1", Name: "e"}}
	cfg.OTLP.Endpoint, cfg.OTLP.Signals = at.URL, []string{"metrics"}
	var log bytes.Buffer
	r, err := start(context.Background(), &cfg, thisBuild(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.stop(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "the last metrics are lost") {
		t.Errorf("the log does not say what is lost: %s", &log)
	}
}
