package proxy_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
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

// TestMisnamed: an engine that does not have the model that its endpoint is declared with is told, in the log once and
// with each request that was sent there in vain.
func TestMisnamed(t *testing.T) {
	const gone = `{"error":{"message":"The model ` + "`m`" + ` does not exist.","type":"NotFoundError","code":404}}`
	for _, declared := range []bool{true, false} {
		r := newRig(t, proxy.Config{Retries: 2}, answers(404, gone), answers(200, chatAnswer))
		all := r.fleet.Status()
		first, second := all[0].Endpoint, all[1].Endpoint
		if first.Models = nil; declared {
			first.Models = []string{"m"}
		}
		r.fleet.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{first, second}})
		for i := range 2 {
			if res, body := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 {
				t.Errorf("client got %d %q", res.StatusCode, body)
			}
			want := live.Misnamed{}
			if declared {
				want = live.Misnamed{Endpoint: "e0", Model: "m"}
			}
			if got := r.last(i + 1).Misnamed; got != want {
				t.Errorf("declared: %t, told of %+v", declared, got)
			}
		}
		lines := strings.Count(r.log.String(), "does not have a model that its endpoint is declared with")
		if lines > 1 || (lines == 1) != declared {
			t.Errorf("declared: %t, %d lines: %s", declared, lines, r.log.String())
		}
	}
}
