package proxy_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
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

// streamed is a body whose length is not known in advance.
func streamed(body string) engineHandler {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, body)
	}
}
