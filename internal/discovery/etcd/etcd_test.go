package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/freeport"
	"github.com/warmpath/warmpath/route"
)

func source(t *testing.T, endpoint string, log *strings.Builder) *Source {
	t.Helper()
	s, err := New(discovery.EtcdConfig{
		Endpoints: []string{endpoint}, Prefix: "/engines/",
		Engine: discovery.EndpointConfig{Kind: "vllm", KVEvents: "tcp://*:5557"},
	}, discovery.None(), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shown(d route.Declared) (out []string) {
	for _, e := range d.Endpoints {
		out = append(out, fmt.Sprint(e.Name, " ", e.URL, " ", e.Kind, " ", e.Role, " ", e.KVEvents))
	}
	return out
}

// TestKeys: what keys declare, and that one with faults is left out, said once, and costs the others nothing.
func TestKeys(t *testing.T) {
	var log strings.Builder
	s := source(t, "127.0.0.1:1", &log)
	var last []string
	published := 0
	publish := func(d route.Declared) { last = shown(d); published++ }
	keys := map[string]string{
		"/engines/a":      "10.0.0.1:8000",
		"/engines/eu/b":   `{"url": "http://10.0.0.2:8000", "role": "decode", "kv_events": "off"}`,
		"/engines/c":      "url: 10.0.0.3:8000\nname: sea\nkind: sglang\n",
		"/engines/d":      `{"url": "http://10.0.0.4:8000", "rolle": "decode"}`,
		"/engines/e":      "10.0.0.1:8000",
		"/engines/f":      `{"url": "http://evil:1", "api_key_file": "/etc/shadow"}`,
		"/engines/broken": `{"url":`,
		// as TensorRT-LLM's servers write them
		"/engines/ctx": `{"url": "http://10.0.1.1:8001", "server_type": "CONTEXT", "health": "ok"}`,
		"/engines/gen": `{"url": "10.0.1.2:8001", "server_role": "generation"}`,
		"/engines/enc": `{"url": "10.0.1.3:8001", "server_type": "mm_encoder"}`,
		// one engine, written in several ways
		"/engines/h": "http://localhost",
		"/engines/i": "127.0.0.1:80",
		"/engines/j": "http://LOCALHOST/",
	}
	want := []string{
		"a http://10.0.0.1:8000 vllm both tcp://10.0.0.1:5557",
		"sea http://10.0.0.3:8000 sglang both tcp://10.0.0.3:5557",
		"ctx http://10.0.1.1:8001 vllm prefill tcp://10.0.1.1:5557", "eu.b http://10.0.0.2:8000 vllm decode off",
		"gen http://10.0.1.2:8001 vllm decode tcp://10.0.1.2:5557",
		"h http://localhost vllm both tcp://localhost:5557",
	}
	for range 2 {
		s.take(keys, publish)
	}
	if !slices.Equal(last, want) || published != 1 {
		t.Errorf("published %d times, last %q, want %q", published, last, want)
	}
	for _, part := range []string{
		"/engines/d is left out", "the key /engines/a has the same name or address", "send a secret of the router",
		"/engines/i is left out: the key /engines/h has", "/engines/j is left out: the key /engines/h has",
		"/engines/broken is left out", "/engines/enc is left out: a server of type",
	} {
		if strings.Count(log.String(), part) != 1 {
			t.Errorf("%q is not said once:\n%s", part, log.String())
		}
	}
	delete(keys, "/engines/a") // its double takes its place
	s.take(keys, publish)
	if published != 2 || !slices.Contains(last, "e http://10.0.0.1:8000 vllm both tcp://10.0.0.1:5557") {
		t.Errorf("published %d times, last %q", published, last)
	}
}

// TestEtcd follows a real etcd: keys come, change, go with their lease, and etcd is killed and comes back.
func TestEtcd(t *testing.T) {
	program := os.Getenv("WARMPATH_ETCD")
	if program == "" {
		var err error
		if program, err = exec.LookPath("etcd"); err != nil {
			t.Skip("no etcd in the path, and WARMPATH_ETCD names none")
		}
	}
	dir, at, peer := t.TempDir(), freeport.Address(), freeport.Address()
	run := func() *exec.Cmd {
		cmd := exec.Command(program, "--data-dir", dir, "--listen-client-urls", "http://"+at, "--advertise-client-urls",
			"http://"+at, "--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer,
			"--initial-cluster", "default=http://"+peer, "--log-level", "error")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	server := run()
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{at}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	put := func(key, value string, options ...clientv3.OpOption) {
		t.Helper()
		for { // an etcd that has just started may not answer yet
			if _, err := client.Put(ctx, key, value, options...); err == nil {
				return
			} else if ctx.Err() != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	put("/engines/a", "10.0.0.1:8000")
	var log strings.Builder
	s := source(t, at, &log)
	heard := make(chan []string, 100)
	following, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); s.Run(following, func(d route.Declared) { heard <- shown(d) }) }()
	until := func(names ...string) {
		t.Helper()
		for {
			select {
			case got := <-heard:
				for i := range got {
					got[i], _, _ = strings.Cut(got[i], " ")
				}
				if slices.Equal(got, names) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("%v was never published", names)
			}
		}
	}
	until("a")
	lease, err := client.Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	put("/engines/b", "10.0.0.2:8000", clientv3.WithLease(lease.ID))
	until("a", "b")
	if _, err := client.Revoke(ctx, lease.ID); err != nil { // etcd does so itself when the time of a lease is over
		t.Fatal(err)
	}
	until("a")
	_ = server.Process.Kill()
	_ = server.Wait()
	server = run()
	put("/engines/c", "10.0.0.3:8000")
	until("a", "c")
	stop()
	<-done
	if n := strings.Count(log.String(), "cannot watch etcd"); n > 1 {
		t.Errorf("one outage is said %d times:\n%s", n, log.String())
	}
}

// TestSame: a source that is made anew is the one before if it would find the same, with the same password.
func TestSame(t *testing.T) {
	password := "a"
	keys := discovery.Keys{ReadFile: func(string) ([]byte, error) { return []byte(password), nil }}
	c := discovery.EtcdConfig{Endpoints: []string{"x:1"}, Prefix: "/engines/", User: "u", PasswordFile: "p"}
	makes := func() *Source {
		s, err := New(c, keys, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := makes()
	if !makes().Same(before) {
		t.Error("unchanged, and another one")
	}
	if password = "b"; makes().Same(before) {
		t.Error("with another password it is the same")
	}
	password, c.Endpoints = "a", []string{"y:1"}
	if makes().Same(before) {
		t.Error("at another address it is the same")
	}
}
