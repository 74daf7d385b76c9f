package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/unixsocket"
)

// engineOnSocket is a simulated engine behind a Unix socket.
func engineOnSocket(t *testing.T, path string) {
	t.Helper()
	engine, err := enginetest.New(enginetest.Options{Models: []string{"m"}, Speed: 20})
	if err != nil {
		t.Fatal(err)
	}
	l, err := unixsocket.Address{Path: path, Mode: 0o600}.Listen()
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: engine}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _, _ = server.Close(), engine.Close() })
}

// TestUnixSockets: clients, operators and engines can all be on Unix sockets, whose files go with the router.
func TestUnixSockets(t *testing.T) {
	for _, transport := range []string{"lean", "lean-listener", "net/http"} {
		t.Run(transport, func(t *testing.T) { unixSockets(t, transport) })
	}
}

func unixSockets(t *testing.T, by string) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return "unix://" + filepath.Join(dir, name) }
	engineOnSocket(t, filepath.Join(dir, "vllm.sock"))
	cfg := config.Default()
	cfg.Transport = by
	cfg.Listen, cfg.Admin.Listen = at("traffic.sock"), at("admin.sock")+"?mode=0600"
	cfg.Endpoints = []discovery.EndpointConfig{{URL: at("vllm.sock")}}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	r, err := start(context.Background(), &cfg, thisBuild(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{"traffic.sock", "admin.sock"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				t.Errorf("%s is left behind", name)
			}
		}
	})
	stopAtEnd(t, r)
	if r.url != at("traffic.sock") || r.adminURL != at("admin.sock") {
		t.Errorf("%s, %s", r.url, r.adminURL)
	}
	if info, err := os.Stat(filepath.Join(dir, "admin.sock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the admin socket: %v %v", info, err)
	}
	r.waitReady(t.Context(), aWhile)
	transport := &http.Transport{DialContext: unixsocket.Dial(&net.Dialer{})}
	defer transport.CloseIdleConnections()
	for _, stream := range []string{"true", "false"} {
		for range 2 { // the second on kept connections
			req, err := http.NewRequest(http.MethodPost, r.url+":/v1/chat/completions", strings.NewReader(
				`{"model":"m","stream":`+stream+`,"max_tokens":5,"messages":[{"role":"user","content":"x"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			res, err := transport.RoundTrip(unixsocket.Request(req))
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			_, err = b.ReadFrom(res.Body)
			_ = res.Body.Close()
			if err != nil || res.StatusCode != 200 || !strings.Contains(b.String(), "choices") {
				t.Errorf("stream %s: %d %v %s", stream, res.StatusCode, err, b.String())
			}
		}
	}
	var shown struct {
		Endpoints []struct{ Name, URL string }
	}
	if err := askAdmin(t.Context(), &adminFlags{admin: r.adminURL}, "/admin/endpoints", nil, &shown); err != nil {
		t.Fatal(err)
	}
	if e := shown.Endpoints; len(e) != 1 || e[0].Name != "vllm.sock" || e[0].URL != at("vllm.sock") {
		t.Errorf("%+v", e)
	}
	if _, err := start(context.Background(), &cfg, thisBuild(), slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "another process listens") {
		t.Errorf("a second router on the same sockets: %v", err)
	}
}
