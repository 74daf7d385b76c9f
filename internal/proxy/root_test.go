package proxy_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/route"
)

// TestRoot: the root says what listens there, in the form that the client reads and without a key. Ollama's own words
// stay where all engines are Ollama.
func TestRoot(t *testing.T) {
	const ollama, status = "Ollama is running", "http://127.0.0.1:9190"
	keys := &identity.Tenants{Keys: keysOf("k", "web"), Required: true}
	engine := func(w http.ResponseWriter, q *http.Request) {
		w.WriteHeader(map[bool]int{true: 200, false: 404}[q.URL.Path == "/"])
		_, _ = io.WriteString(w, ollama)
	}
	for name, c := range map[string]struct {
		kinds  []fleet.Kind
		cfg    proxy.Config
		header []string
		media  string
		says   []string
		hides  string
	}{
		"curl": {[]fleet.Kind{fleet.KindVLLM}, proxy.Config{StatusPage: status}, []string{
			"Accept", "*/*",
		}, "application/json", []string{`"service":"warmpath"`, "/v1/chat/completions", status}, ollama},
		"a browser": {[]fleet.Kind{fleet.KindSGLang}, proxy.Config{StatusPage: status}, []string{
			"Accept", "text/html,*/*;q=0.8",
		}, "text/html; charset=utf-8", []string{"<h1>warmpath", "/v1/chat/completions", status}, ollama},
		"from elsewhere": {[]fleet.Kind{fleet.KindVLLM}, proxy.Config{
			StatusPage: status,
		}, []string{"X-Forwarded-For", "192.0.2.1"}, "application/json", []string{"admin listener"}, status},
		"no admin": {
			[]fleet.Kind{fleet.KindVLLM},
			proxy.Config{},
			nil, "application/json",
			[]string{"admin listener"},
			"http://",
		},
		"without a key": {
			[]fleet.Kind{fleet.KindVLLM},
			proxy.Config{Tenants: keys},
			nil, "application/json",
			[]string{"warmpath"},
			ollama,
		},
		"not asked yet": {
			[]fleet.Kind{fleet.KindUnknown}, proxy.Config{}, nil, "application/json", []string{"warmpath"}, ollama,
		},
		"no engine": {nil, proxy.Config{}, nil, "application/json", []string{"warmpath"}, ollama},
		"mixed": {
			[]fleet.Kind{fleet.KindOllama, fleet.KindVLLM},
			proxy.Config{},
			nil, "application/json",
			[]string{"warmpath"},
			ollama,
		},
		"Ollama": {
			[]fleet.Kind{fleet.KindOllama, fleet.KindOllama}, proxy.Config{}, nil, "", []string{ollama}, "warmpath",
		},
		"named by a setting": {
			[]fleet.Kind{fleet.KindLlamaCpp},
			proxy.Config{Paths: paths(t, "GET /")},
			nil, "",
			[]string{ollama},
			"warmpath",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cfg.Paths == nil {
				c.cfg.Paths = paths(t, "GET /other")
			}
			r := newRig(t, c.cfg, slices.Repeat([]http.HandlerFunc{engine}, len(c.kinds))...)
			for i, s := range r.fleet.Status() {
				r.fleet.Observe(route.Probed{Endpoint: s.Endpoint.Name, Report: fleet.Report{
					Healthy: true, Kind: c.kinds[i], Models: []fleet.Model{{ID: "m"}},
				}})
			}
			var lengths [2]int64
			for i, method := range []string{"GET", "HEAD"} {
				req, _ := http.NewRequest(method, r.url+"/", http.NoBody)
				for i := 0; i < len(c.header); i += 2 {
					req.Header.Set(c.header[i], c.header[i+1])
				}
				res, err := r.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				b, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if lengths[i] = res.ContentLength; res.StatusCode != 200 ||
					c.media != "" && res.Header.Get("Content-Type") != c.media {
					t.Errorf("%s: %d %v", method, res.StatusCode, res.Header)
				}
				for _, s := range c.says {
					if method == "GET" && (!strings.Contains(string(b), s) || strings.Contains(string(b), c.hides)) {
						t.Errorf("%s, want %q, not %q", b, s, c.hides)
					}
				}
			}
			if c.media != "" && lengths[0] != lengths[1] {
				t.Errorf("GET has %d bytes, HEAD says %d", lengths[0], lengths[1])
			}
		})
	}
}
