package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// TestStateIsKept: a router that ends and begins again with the same file sends each conversation back to its engine.
func TestStateIsKept(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Explain.Headers = true
	cfg.State.File = filepath.Join(t.TempDir(), "state")
	cfg.Policy.Name = "session" // the default leaves an engine that looked slow, on a busy machine
	for i := range 4 {
		_, url := simEngine(t, enginetest.Options{Models: []string{"m"}, Seed: uint64(i), Speed: 20})
		cfg.Endpoints = append(cfg.Endpoints, discovery.EndpointConfig{URL: url, Name: fmt.Sprint("e", i)})
	}
	begin := func() *router {
		r, err := start(context.Background(), &cfg, thisBuild(), slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		r.waitReady(context.Background(), aWhile)
		return r
	}
	client := &http.Client{Transport: &http.Transport{}}
	turn := func(r *router, talk, turns int) (endpoint string) {
		var says []string
		for i := range turns {
			says = append(says, fmt.Sprintf(`{"role":"user","content":"%d of conversation %d: %s"}`,
				i, talk, strings.Repeat("a word ", 100)))
		}
		req, err := http.NewRequest(http.MethodPost, r.url+"/v1/chat/completions",
			strings.NewReader(`{"model":"m","max_tokens":1,"messages":[`+strings.Join(says, ",")+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if talk%2 == 0 {
			req.Header.Set("X-Session-Id", fmt.Sprint("talk-", talk))
		}
		answer, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if _, _ = io.Copy(io.Discard, answer.Body); answer.StatusCode != http.StatusOK {
			t.Fatalf("status %d", answer.StatusCode)
		}
		return answer.Header.Get("X-Warmpath-Endpoint")
	}
	const talks = 12
	first := begin()
	var homes [talks]string
	for i := range homes {
		homes[i] = turn(first, i, 1)
	}
	client.CloseIdleConnections()
	if err := first.stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	second := begin()
	stopAtEnd(t, second)
	defer client.CloseIdleConnections()
	if s := second.fleet.Stats(); s.Sessions < talks {
		t.Errorf("%d conversations are known, there were %d", s.Sessions, talks)
	}
	seen := map[string]bool{}
	for i, home := range homes {
		if at := turn(second, i, 2); at != home || home == "" {
			t.Errorf("conversation %d was at %q and goes on at %q", i, home, at)
		}
		seen[home] = true
	}
	if len(seen) < 2 {
		t.Errorf("all are at %v: the test shows nothing", seen)
	}
}
