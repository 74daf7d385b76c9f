package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestExplainHeaders: endpoint and reason are told by name where they are asked for, on the router's own errors too;
// nothing of it reaches the engine, and nothing of another router's comes through.
func TestExplainHeaders(t *testing.T) {
	asked := make(chan http.Header, 10)
	answers := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- r.Header
		w.Header().Set("X-Warmpath-Endpoint", "http://10.0.0.9:8000")
		w.Header().Set("X-Warmpath-Reason", "of another router")
		_, _ = io.WriteString(w, `{"id":"x"}`)
	}
	breaks := func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		name             string
		engine           engineHandler
		config           proxy.Config
		header           []string
		status           int
		endpoint, reason string
	}{
		{"nobody asks", answers, proxy.Config{}, nil, 200, "", ""},
		{"the request asks", answers, proxy.Config{}, []string{"x-warmpath-explain", "1"}, 200, "e0", "only_candidate"},
		{"configured", answers, proxy.Config{Explain: true}, nil, 200, "e0", "only_candidate"},
		{
			"an engine that breaks off", breaks,
			proxy.Config{},
			[]string{"X-Warmpath-Explain", "1"},
			502, "e0", "only_candidate",
		},
		{"a model that nobody serves", answers, proxy.Config{Explain: true}, nil, 404, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.config, c.engine)
			model := "m"
			if c.status == 404 {
				model = "zz"
			}
			res, _ := r.post("/v1/chat/completions", `{"model":"`+model+`","messages":[]}`, c.header...)
			if got := res.Header; res.StatusCode != c.status || got.Get("X-Warmpath-Endpoint") != c.endpoint ||
				got.Get("X-Warmpath-Reason") != c.reason {
				t.Errorf("%d %v", res.StatusCode, got)
			}
			for len(asked) > 0 {
				for k := range <-asked {
					if strings.HasPrefix(k, "X-Warmpath") {
						t.Errorf("the engine was sent %s", k)
					}
				}
			}
		})
	}
}
