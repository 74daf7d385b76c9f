package proxy_test

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestLoops: an endpoint leads back to the router, through a load balancer or another router that has it as an
// endpoint. Each kind of request ends at once with an error that says so, in place of going round until descriptors run
// out.
func TestLoops(t *testing.T) {
	var (
		r     *rig
		other *rig
		asked atomic.Int32
	)
	to := func(at func() string) engineHandler {
		return func(w http.ResponseWriter, req *http.Request) {
			if asked.Add(1) > 20 {
				http.Error(w, "round and round", http.StatusTeapot)
				return
			}
			u, _ := url.Parse(at())
			(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(u) }}).ServeHTTP(w, req)
		}
	}
	back := to(func() string { return r.url })
	for name, engine := range map[string]engineHandler{
		"a balancer":     back,
		"another router": to(func() string { return other.url }),
	} {
		r, other = newRig(t, proxy.Config{}, engine), newRig(t, proxy.Config{}, back)
		for _, tt := range []struct {
			method, path, body string
			header             []string
		}{
			{"POST", "/v1/chat/completions", `{"model":"m","messages":[]}`, nil},
			{"POST", "/v1/chat/completions", plainStream, nil},
			{"POST", "/v1/completions", `{"model":"m","prompt":"x"}`, nil},
			{"POST", "/v1/messages", `{"model":"m","messages":[],"max_tokens":1}`, nil},
			{"POST", "/v1/responses", `{"model":"m","input":"x"}`, []string{"Via", "1.0 fred, 1.1 edge"}},
			{"POST", "/api/chat", `{"model":"m","messages":[]}`, nil},
			{"POST", "/v1/audio/transcriptions", "RIFF", []string{"Content-Type", "audio/wav"}},
			{"GET", "/version", "", nil},
			{"GET", "/v1/responses/resp_1", "", nil},
			{
				"OPTIONS", "/v1/chat/completions", "",
				[]string{"Origin", "https://app.example", "Access-Control-Request-Method", "POST"},
			},
			{"GET", "/v1/realtime?model=m", "", []string{
				"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==",
				"Sec-WebSocket-Version", "13",
			}},
		} {
			asked.Store(0)
			res, answer := r.do(tt.method, tt.path, tt.body, tt.header...)
			if res.StatusCode != http.StatusLoopDetected || !strings.Contains(answer, "passed this router before") ||
				asked.Load() > 4 {
				t.Errorf("%s: %s %s: %d %s, %d sent on", name, tt.method, tt.path, res.StatusCode, answer, asked.Load())
			}
		}
		asked.Store(0)
		if res, answer := r.do("GET", "/v1/models", ""); res.StatusCode != 200 || !strings.Contains(answer, `"m"`) ||
			asked.Load() > 2 {
			t.Errorf("%s: the list: %d %s, %d sent on", name, res.StatusCode, answer, asked.Load())
		}
	}
}

// TestRoutersInARow: routers behind one another are no loop, and an engine learns of all of them.
func TestRoutersInARow(t *testing.T) {
	var via string
	inner := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
		via = strings.Join(req.Header.Values("Via"), ", ")
		answers(200, chatAnswer)(w, req)
	})
	u, _ := url.Parse(inner.url)
	outer := newRig(t, proxy.Config{},
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(u) }}).ServeHTTP)
	res, answer := outer.post("/v1/chat/completions", `{"model":"m","messages":[]}`, "Via", "1.1 edge")
	if parts := strings.Split(via, ", "); res.StatusCode != 200 || len(parts) != 3 || parts[0] != "1.1 edge" ||
		parts[1] == parts[2] {
		t.Errorf("%d %s, Via: %s", res.StatusCode, answer, via)
	}
}
