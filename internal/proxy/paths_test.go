package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// asked sends a request line as it stands, which Go's client would clean.
func (r *rig) asked(line string) (status int, body string) {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn,
		"%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		line, len(tenantBody), tenantBody); err != nil {
		r.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// TestBasePathIsNotLeft: no path leads out of that of an endpoint's URL, however it is written.
func TestBasePathIsNotLeft(t *testing.T) {
	var seen atomic.Pointer[string]
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, q *http.Request) {
		seen.Store(&q.RequestURI)
		answers(200, chatAnswer)(w, q)
	})
	e := r.fleet.Status()[0].Endpoint
	e.URL += "/tenant-a"
	r.fleet.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{e}})
	r.fleet.Observe(route.Probed{
		Endpoint: e.Name, Report: fleet.Report{Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}}},
	})
	for _, path := range []string{
		"/../tenant-b/v1/responses/m", "/v1/../../tenant-b/v1/responses/m", "/v1/responses/../../../tenant-b",
		"/v1/responses/%2e%2e/%2E./x", "/v1/responses/..%2f..%2ftenant-b", "/v1/responses/..%5c..%5ctenant-b",
		"/v1/responses/%252e%252e/tenant-b", "/v1/responses/%25252e%25252e%25252f", "/v1/responses/..;a=b/tenant-b",
		"/v1/responses/./m", "/v1/responses/..", "http://localhost/../tenant-b/v1/responses/m",
	} {
		seen.Store(nil)
		status, body := r.asked("GET " + path)
		if got := seen.Load(); got != nil {
			t.Errorf("%s reached the engine as %s", path, *got)
		}
		if status != 400 || !strings.Contains(body, `"bad_path"`) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for path, want := range map[string]string{
		"/v1/responses/a..b":     "/tenant-a/v1/responses/a..b",
		"/v1/responses/meta%2Fm": "/tenant-a/v1/responses/meta%2Fm",
		"/v1/responses/.hidden":  "/tenant-a/v1/responses/.hidden",
		"/v1/responses/100%25":   "/tenant-a/v1/responses/100%25",
		"/v1/responses/...":      "/tenant-a/v1/responses/...",
	} {
		seen.Store(nil)
		if status, body := r.asked("GET " + path); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
		if got := seen.Load(); got == nil || *got != want {
			t.Errorf("%s: the engine got %v, want %s", path, got, want)
		}
	}
}

// TestPathsOfEngines: inference passes, what acts on an engine as a whole does not unless the configuration says so,
// and the refusal is told in the API's shape with the setting's name.
func TestPathsOfEngines(t *testing.T) {
	var seen atomic.Int64
	engine := func(w http.ResponseWriter, q *http.Request) {
		seen.Add(1)
		answers(200, chatAnswer)(w, q)
	}
	r := newRig(t, proxy.Config{Paths: paths(t, "POST /wake_up", "/slots/*")}, engine)
	reaches := func(line string) (bool, int, string) {
		before := seen.Load()
		status, body := r.asked(line)
		return seen.Load() > before, status, body
	}
	for _, line := range []string{
		"POST /sleep", "POST /sleep?level=2", "POST /%73leep", "GET /is_sleeping", "POST /flush_cache",
		"GET /flush_cache", "POST /reset_prefix_cache", "POST /start_profile", "POST /stop_profile",
		"POST /v1/load_lora_adapter", "POST /v1/unload_lora_adapter", "POST /load_lora_adapter", "POST /lora-adapters",
		"POST /collective_rpc", "POST /update_weights_from_disk", "POST /update_weights",
		"POST /release_memory_occupation", "POST /pause", "POST /abort_request", "POST /set_internal_state",
		"GET /server_info", "GET /get_server_info", "POST /kv_cache_events", "GET /perf_metrics", "GET /metrics",
		"DELETE /api/delete", "POST /api/pull", "POST /api/push", "POST /api/create", "POST /api/copy",
		"POST /api/blobs/sha256:1", "POST /models/load", "POST /models/unload", "GET /slots", "POST /props",
		"GET /props", "POST /inference/v1/generate", "POST /invocations", "POST //sleep", "POST /sleep/",
		"OPTIONS /sleep", "GET /openapi.json",
	} {
		if passed, status, body := reaches(line); passed || status != 404 ||
			line != "GET /metrics" && !strings.Contains(body, "the setting paths allows others") {
			t.Errorf("%s: passed on %t, %d %s", line, passed, status, body)
		}
	}
	for _, path := range []string{"/abort_request", "/abort_requests", "/inference/v1/abort_requests"} {
		if passed, status, body := reaches("POST " + path); passed || status != 404 ||
			!strings.Contains(body, "To abort a request, close its connection") {
			t.Errorf("%s: passed on %t, %d %s", path, passed, status, body)
		}
	}
	for path, extra := range map[string]string{
		"/v1/v1/messages": "/v1", "/v1/v1/unknown": "/v1",
		"/v1/chat/completions/chat/completions": "/chat/completions",
		"/v1/chat/completions/models":           "/chat/completions", "/v1/messages/v1/messages": "/v1/messages",
		"/v1/messages/v1/messages/count_tokens": "/v1/messages", "/api/chat/api/chat": "/api/chat",
	} {
		_, _, body := reaches("POST " + path)
		if !strings.Contains(body, "? Leave "+extra+" out of the client's base") {
			t.Errorf("%s: %s", path, body)
		}
	}
	for _, line := range []string{
		"POST /v1/chat/completions", "POST /v1/completions", "POST /v1/embeddings", "POST /v1/responses",
		"POST /v1/messages", "POST /v1/messages/count_tokens", "GET /v1/responses/resp_1",
		"POST /v1/responses/resp_1/cancel", "DELETE /v1/responses/resp_1", "GET /health", "HEAD /health",
		"GET /version", "POST /tokenize", "POST /detokenize", "POST /rerank", "POST /v1/rerank", "POST /v2/rerank",
		"POST /score", "POST /v1/score", "POST /classify", "POST /pooling", "POST /v1/decisions", "POST /v1/systemone",
		"POST /generative_scoring", "POST /v1/chat/completions/batch", "POST /v1/chat/completions/derender",
		"POST /v1/completions/derender", "POST /v1/messages/render", "POST /v1/responses/render",
		"POST /v1/audio/transcriptions", "POST /v1/audio/speech", "POST /v1/images/generations", "POST /completion",
		"POST /infill", "POST /apply-template", "GET /api/tags", "POST /api/show", "POST /wake_up",
		"POST /slots/0?action=save", "OPTIONS /slots/0",
	} {
		if passed, status, body := reaches(line); !passed || status != 200 {
			t.Errorf("%s: passed on %t, %d %s", line, passed, status, body)
		}
	}
	for line, want := range map[string]string{
		"POST /sleep":            `{"error":{"code":"path_not_allowed"`,
		"POST /api/pull":         `{"error":"the router does not pass on POST `,
		"POST /v1/messages/odd":  `"type":"error"`,
		"GET /chrome/devtools/x": `"code":"path_not_allowed"`,
	} {
		if _, body := r.asked(line); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s in it", line, body, want)
		}
	}
	c := r.open("GET /sleep HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 404 {
		t.Errorf("an upgrade: %v, %v", res, err)
	}
}

// TestMethods: each path says which methods it takes, to those that ask and to those that use another. Only a browser's
// preflight is for engines.
func TestMethods(t *testing.T) {
	var seen atomic.Int64
	r := newRig(t, proxy.Config{
		Paths: paths(t, "POST /wake_up", "GET /slots"),
	}, func(w http.ResponseWriter, q *http.Request) {
		seen.Add(1)
		answers(200, chatAnswer)(w, q)
	})
	ask := func(method, path string, header ...string) *http.Response {
		t.Helper()
		req, _ := http.NewRequest(method, r.url+path, http.NoBody)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	const reads = "GET, HEAD, OPTIONS"
	for path, takes := range map[string]string{
		"/v1/chat/completions": "POST, OPTIONS", "/v1/messages": "POST, OPTIONS", "/v1/responses": "POST, OPTIONS",
		"/api/chat": "POST, OPTIONS", "/generate": "POST, OPTIONS", "/tokenize": "POST, OPTIONS",
		"/wake_up": "POST, OPTIONS", "/v1/responses/r1": "GET, HEAD, POST, DELETE, OPTIONS",
		"/ping": "GET, HEAD, POST, OPTIONS", "/v1/models": reads, "/v1/models/m": reads, "/health": reads,
		"/slots": reads, "/api/tags": reads, "/": reads, "/healthz": reads, "/readyz": reads,
	} {
		before := seen.Load()
		if res := ask("OPTIONS", path); res.StatusCode != 204 || res.Header.Get("Allow") != takes {
			t.Errorf("OPTIONS %s: %d %v", path, res.StatusCode, res.Header)
		}
		for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"} {
			if strings.Contains(takes, m) {
				continue
			}
			res := ask(m, path)
			if body, _ := io.ReadAll(res.Body); res.StatusCode != 405 || res.Header.Get("Allow") != takes ||
				m != "HEAD" && !strings.Contains(string(body), path+" takes ") {
				t.Errorf("%s %s: %d %v %s", m, path, res.StatusCode, res.Header, body)
			}
		}
		if seen.Load() != before {
			t.Errorf("%s reached the engine", path)
		}
		if strings.HasPrefix(takes, "GET") {
			get, head := ask("GET", path), ask("HEAD", path)
			if get.StatusCode != head.StatusCode || get.ContentLength != head.ContentLength {
				t.Errorf("HEAD %s: %d, %d bytes, GET %d, %d", path, head.StatusCode, head.ContentLength, get.StatusCode,
					get.ContentLength)
			}
		}
	}
	before := seen.Load()
	ask("OPTIONS", "/v1/chat/completions", "Origin", "https://a.example", "Access-Control-Request-Method", "POST")
	if seen.Load() != before+1 {
		t.Error("a preflight does not reach the engine")
	}
	if res := ask("OPTIONS", "/sleep"); res.StatusCode != 404 || res.Header.Get("Allow") != "" {
		t.Errorf("a path that is not passed on: %d %v", res.StatusCode, res.Header)
	}
}

// TestSlashAtTheEnd: a path that is passed on is the same with a slash behind it, whoever answers it: body and query
// pass.
func TestSlashAtTheEnd(t *testing.T) {
	var seen atomic.Pointer[string]
	r := newRig(t, proxy.Config{Paths: paths(t, "/wake_up", "/ui/*")}, func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		got := q.Method + " " + q.RequestURI + " " + string(b)
		seen.Store(&got)
		answers(200, chatAnswer)(w, q)
	})
	for _, line := range []string{
		"POST /v1/chat/completions", "POST /v1/completions", "POST /v1/embeddings", "POST /v1/responses",
		"POST /v1/messages", "POST /v1/messages/count_tokens", "POST /generate",
		"POST /api/chat", "POST /api/generate", "POST /tokenize", "POST /rerank", "POST /v1/responses/r%2F1/cancel",
		"GET /v1/responses/r1", "GET /health", "GET /v1/models", "GET /v1/models/m",
		"POST /wake_up", "GET /healthz", "GET /readyz", "GET /metrics", "GET /v1/chat/completions",
	} {
		var got [2]string
		for i, path := range []string{line + "?a=b", line + "/?a=b"} {
			seen.Store(nil)
			status, body := r.asked(path)
			if got[i] = fmt.Sprint(status, " ", body); seen.Load() != nil && !strings.Contains(line, "/v1/models") {
				got[i] = fmt.Sprint(status, " ", *seen.Load())
			}
		}
		if got[0] != got[1] {
			t.Errorf("%s: %s, with a slash %s", line, got[0], got[1])
		}
	}
	for line, status := range map[string]int{
		"GET /ui/": 200, "POST /sleep/": 404, "POST /v1/chat/completions//": 404, "POST /v1/chat/completions%2F": 404,
		"GET /": 200, "GET //": 404,
	} {
		seen.Store(nil)
		if got, body := r.asked(line); got != status {
			t.Errorf("%s: %d %s", line, got, body)
		}
		if got := seen.Load(); got != nil && strings.Fields(*got)[1] != strings.Fields(line)[1] {
			t.Errorf("%s: the engine got %s", line, *got)
		}
	}
}
