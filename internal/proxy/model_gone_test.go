package proxy_test

import (
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestModelGoneAtOneEndpoint: an engine that does not have the model any more has done nothing, so another one answers.
// If none has it, the client gets the engine's own words, and no engine is blamed.
func TestModelGoneAtOneEndpoint(t *testing.T) {
	for name, gone := range map[string]struct {
		status int
		body   string
	}{
		"vllm": {
			404, `{"error":{"message":"The model ` + "`m`" +
				` does not exist.","type":"NotFoundError","param":"model","code":404}}`,
		},
		"sglang, adapter": {400, `{"object":"error","message":"The following requested LoRA adapters are not loaded: m","type":"BadRequestError","code":400}`},
		"llamacpp, router": {
			400, `{"error":{"code":400,"message":"model 'm' not found","type":"invalid_request_error"}}`,
		},
		"ollama": {404, `{"error":"model \"m\" not found, try pulling it first"}`},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			r := newRig(t, proxy.Config{}, answers(gone.status, gone.body), answers(200, chatAnswer))
			if res, body := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 || body != chatAnswer {
				t.Errorf("got %d %q", res.StatusCode, body)
			}
			r = newRig(t, proxy.Config{}, answers(gone.status, gone.body), answers(gone.status, gone.body))
			if res, body := r.post("/v1/chat/completions", chatBody); res.StatusCode != gone.status ||
				body != gone.body {
				t.Errorf("no endpoint has it: got %d %q", res.StatusCode, body)
			}
			for _, e := range r.fleet.Status() {
				if e.Failures != 0 {
					t.Errorf("%s is blamed", e.Endpoint.Name)
				}
			}
		}))
	}
}
