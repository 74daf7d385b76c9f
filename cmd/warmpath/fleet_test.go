package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// adminOf is an admin listener with two endpoints, which notes the calls.
func adminOf(t *testing.T, calls *[]string) string {
	t.Helper()
	const one = `{"name":"gpu-1","state":"up",
		"load":{"requests":2,"prefill_tokens":7}}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*calls = append(*calls, r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization"))
		switch {
		case strings.HasSuffix(r.URL.Path, "/drain"):
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(one))
		case strings.HasSuffix(r.URL.Path, "/undrain"):
			_, _ = w.Write([]byte(one))
		default:
			_, _ = w.Write([]byte(`{"endpoints":[` + one + `,{"name":"gpu-2","state":"down","detail":"connection refused"}],"stats":{"ready":true,"version":"v"}}`))
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestFleetCommands(t *testing.T) {
	for _, tt := range []struct {
		name, args string
		code       int
		out, err   string // parts
		call       string // beginning of the last one
	}{
		{"all endpoints", "endpoints", 0, "connection refused", "", "GET /admin/endpoints Bearer s3"},
		{
			"one as JSON", "endpoints gpu-1 --json", 0,
			`{"name":"gpu-1","state":"up","load":{"requests":2,"prefill_tokens":7}}` + "\n", "", "GET",
		},
		{"an unknown one", "endpoints gpu-9", 1, "", `no endpoint "gpu-9"`, "GET"},
		{"an unknown one as JSON", "endpoints gpu-9 --json", 1, "", `no endpoint "gpu-9"`, "GET"},
		{"one look where there is no terminal", "top", 0, "warmpath v, up 0s, ready", "", "GET"},
		{"too often", "top --every 1ms", 2, "", "--every must be at least 100ms", ""},
		{
			"requests outlive the wait", "drain gpu-1 --wait 1s", 1, "", "2 requests still run there after 1s",
			"POST /admin/endpoints/gpu-1/drain?wait=1s",
		},
		{
			"requests outlive the wait, as JSON", "drain gpu-1 --wait 1s --json", 1,
			`{"endpoint":"gpu-1","draining":true,"requests":2}` + "\n", "2 requests still run", "POST",
		},
		{
			"back, as JSON", "drain gpu-1 --undo --json", 0,
			`{"endpoint":"gpu-1","draining":false,"requests":0}` + "\n", "", "POST",
		},
		{"one look as JSON", "top --json", 0, `{"endpoints":[{"name":"gpu-1",`, "", "GET /admin/endpoints Bearer s3"},
		{
			"no wait", "drain a/b --wait 0s", 0, "a/b is drained, 2 requests run there", "",
			"POST /admin/endpoints/a%2Fb/drain?wait=0s",
		},
		{"back", "drain gpu-1 --undo", 0, "gpu-1 takes traffic again", "", "POST /admin/endpoints/gpu-1/undrain"},
		{"no name", "drain", 2, "", "name one endpoint", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls []string
			var out, log strings.Builder
			args := append(strings.Fields(tt.args), "--admin", adminOf(t, &calls))
			code := Main(t.Context(), args, []string{"WARMPATH_ADMIN_TOKEN=s3"}, strings.NewReader(""), &out, &log)
			if code != tt.code || !strings.Contains(out.String(), tt.out) || !strings.Contains(log.String(), tt.err) {
				t.Errorf("exit %d, out %q, err %q", code, &out, &log)
			}
			if last := strings.Join(calls, "\n"); !strings.HasPrefix(last, tt.call) || tt.call == "" && last != "" {
				t.Errorf("calls: %q", last)
			}
		})
	}
}

// TestLooksAsJSON: with --every the looks go on, a line each, until the router is gone, which is said.
func TestLooksAsJSON(t *testing.T) {
	var calls []string
	at := adminOf(t, &calls)
	out, in := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int, 1)
	var log strings.Builder
	go func() {
		code <- Main(ctx, []string{"top", "--json", "--every", "100ms", "--admin", at}, nil,
			strings.NewReader(""), in, &log)
		_ = in.Close()
	}()
	lines := bufio.NewScanner(out)
	for range 2 {
		var look struct{ Endpoints []struct{ Name string } }
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &look) != nil || len(look.Endpoints) != 2 {
			t.Fatalf("a look is %q", lines.Text())
		}
	}
	stop()
	for lines.Scan() {
		continue // what was under way
	}
	if got := <-code; got != exitOK || log.Len() > 0 {
		t.Errorf("exit %d, %s", got, &log)
	}
}
