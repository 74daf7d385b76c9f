package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
)

// pipes is a listener in memory.
type pipes struct {
	come   chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.come:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestSilentConnectionsAreNotWaitedFor: a server that stops waits for none of them, not even the 5 s that net/http would.
func TestSilentConnectionsAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s silent
		server := &http.Server{}
		s.watch(server)
		l := &pipes{come: make(chan net.Conn), closed: make(chan struct{})}
		done := make(chan error)
		go func() { done <- server.Serve(l) }()
		for _, said := range []string{"", "GET /he"} {
			near, far := net.Pipe()
			defer near.Close()
			l.come <- far
			if _, err := io.WriteString(near, said); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		began := time.Now()
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v to stop", took)
		}
		<-done
	})
}

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
