package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// TestRestartOnHeldSocket: one router after another on a socket that somebody else holds open, and no request is lost,
// on new connections or old ones.
func TestRestartOnHeldSocket(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	run := func() *router {
		t.Helper()
		file, err := held.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.FileListener(file)
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		cfg := config.Default()
		cfg.Admin.Listen = ""
		cfg.Endpoints = []discovery.EndpointConfig{{URL: engine, Name: "e", Kind: "vllm", Models: []string{"m"}}}
		r, err := startOn(context.Background(), &cfg, thisBuild(), sockets{"traffic": l}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var ended atomic.Bool
	var answered atomic.Int64
	var wg sync.WaitGroup
	url := "http://" + held.Addr().String() + "/v1/chat/completions"
	for i := range 6 {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
			defer client.CloseIdleConnections()
			for !ended.Load() {
				res, err := client.Post(url, "application/json", strings.NewReader(`{"model":"m","stream":true,"max_tokens":20,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`))
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != 200 || !strings.Contains(string(b), "[DONE]") {
					t.Errorf("%d %v %s", res.StatusCode, err, b)
					return
				}
				answered.Add(1)
			}
		})
	}
	r := run()
	for range 3 {
		at := answered.Load()
		settled(func() bool { return answered.Load() > at+20 || t.Failed() })
		ctx, cancel := context.WithTimeout(context.Background(), aWhile)
		if err := r.stop(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		r = run()
	}
	at := answered.Load()
	settled(func() bool { return answered.Load() > at+20 || t.Failed() })
	ended.Store(true)
	wg.Wait()
	stopAtEnd(t, r)
}

// TestSocketNames: sockets go by their names, and those without by their order.
func TestSocketNames(t *testing.T) {
	a, b, c, d := &net.TCPListener{}, &net.TCPListener{}, &net.TCPListener{}, &net.TCPListener{}
	s := sockets{}
	for _, x := range []struct {
		name string
		l    net.Listener
		want bool
	}{{"admin", a, true}, {"warmpath.socket", b, true}, {"LISTEN_FD_5", c, true}, {"more", d, false}, {
		"admin", d, false,
	}} {
		if got := s.add(x.name, x.l); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
	if s["admin"] != a || s["traffic"] != b || s["workers"] != c {
		t.Errorf("%v", s)
	}
}
