package proxy_test

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// TestErrorInPlaceOfAnAnswer: an engine that says 200 and has nothing but an error is to blame for it, or the client is, and gets its
// words all the same where nobody else can answer.
func TestErrorInPlaceOfAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		name, path, body string
		want             fleet.Outcome
	}{
		{"OpenAI's", "/v1/chat/completions", `{"error":{"message":"died","code":500}}`, fleet.EngineError},
		{"the client's fault", "/v1/chat/completions", ` {"object":"error","message":"too long","code":400}`, fleet.ClientError},
		{"Anthropic's", "/v1/messages", `{"type":"error","error":{"type":"overloaded_error","message":"wait"}}`, fleet.Busy},
		{"without a code", "/v1/embeddings", `{"error":"died"}`, fleet.EngineError},
		{"no error", "/v1/completions", `{"error":null,"choices":[{"text":"{\"error\":{}}"}]}`, fleet.OK},
		{"a response that failed is an answer", "/v1/responses", `{"id":"r","object":"response","status":"failed","error":{"code":"server_error"}}`, fleet.OK},
		{"a path that is not known", "/v1/score", `{"error":{"message":"died","code":500}}`, fleet.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, proxy.Config{}, answers(200, tt.body))
			if res, body := r.post(tt.path, `{"model":"m","messages":[],"input":"a","prompt":"a"}`); res.StatusCode != 200 || body != tt.body {
				t.Errorf("client got %d %q", res.StatusCode, body)
			}
			if s := r.last(1); s.Outcome != tt.want {
				t.Errorf("told of as %s, want %s", s.Outcome, tt.want)
			}
		})
	}
}

// TestAPIMismatch: the 404 of an engine whose kind does not serve the client's API becomes an error that says so, in that API's shape.
// Every other 404 is the engine's own.
func TestAPIMismatch(t *testing.T) {
	const own = `{"detail":"Not Found"}`
	for _, tt := range []struct {
		name, path string
		kind       fleet.Kind
		status     int    // the engine's
		told       int    // the client's, where it is another
		want       string // part of the body
	}{
		{"Ollama's client, vLLM", "/api/chat", fleet.KindVLLM, 404, 0, `{"error":"the engine (vllm) does not serve /api/chat`},
		{"a path of Ollama's that is not known", "/api/embed", fleet.KindVLLM, 404, 0, "does not translate APIs: engines of the kind ollama, sglang serve it"},
		{"Anthropic's client, TensorRT-LLM", "/v1/messages", fleet.KindTRTLLM, 405, 404, `"type":"not_found_error"`},
		{"an engine that serves it", "/v1/messages", fleet.KindVLLM, 404, 0, own},
		{"an engine that has learnt it", "/v1/messages", fleet.KindTRTLLM, 200, 0, own},
		{"an engine of an unknown kind", "/api/chat", fleet.KindOther, 404, 0, own},
		{"a path without its /v1", "/chat/completions", fleet.KindVLLM, 404, 0, `the engine (vllm) does not serve /chat/completions; did you mean \"/v1/chat/completions\"?`},
		{"a path without /v1 that the engine serves", "/chat/completions", fleet.KindLlamaCpp, 200, 0, own},
		{"an API that all serve", "/v1/chat/completions", fleet.KindTRTLLM, 404, 0, own},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, proxy.Config{}, answers(tt.status, own))
			r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Healthy: true, Kind: tt.kind, Models: []fleet.Model{{ID: "m"}}}})
			res, body := r.post(tt.path, `{"model":"m","messages":[],"input":"a"}`)
			if res.StatusCode != cmp.Or(tt.told, tt.status) || !strings.Contains(body, tt.want) {
				t.Errorf("client got %d %q", res.StatusCode, body)
			}
		})
	}
}

// streamed is a body whose length is not known in advance.
func streamed(body string) engineHandler {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, body)
	}
}
