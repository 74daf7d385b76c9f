package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestFoundBySomethingElse: an engine finds nothing for a request of which it computes the whole prompt, whatever it
// has, and for several answers what one of them has had computed. The answer is vLLM's (0.33.0), but for its text.
func TestFoundBySomethingElse(t *testing.T) {
	for _, tt := range []struct {
		name, path, body string
		known            bool
	}{
		{"echo", "/v1/completions", `{"model":"m","prompt":"a","echo":true,"logprobs":1}`, false},
		{"prompt_logprobs", "/v1/completions", `{"model":"m","prompt":"a","prompt_logprobs":0}`, false},
		{"prompt_logprobs of a chat", "/v1/chat/completions", `{"model":"m","messages":[],"prompt_logprobs":0}`, false},
		{"two answers", "/v1/completions", `{"model":"m","prompt":"a","n":2}`, false},
		{"without", "/v1/completions", `{"model":"m","prompt":"a","logprobs":1,"n":1}`, true},
	} {
		t.Run(tt.name, bubbled(func(t *testing.T) {
			r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"id":"cmpl-1","object":"text_completion","choices":[{"index":0,"text":"a b","finish_reason":"length"}],"usage":{"prompt_tokens":420,"total_tokens":421,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":null,"multimodal_tokens":null},"completion_tokens_details":null},"kv_transfer_params":null}`)
			})
			if res, body := r.post(tt.path, tt.body); res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			if u := r.last(1).Usage; u.CachedKnown != tt.known || u.PromptTokens != 420 || u.OutputTokens != 1 {
				t.Errorf("%+v", u)
			}
		}))
	}
}

// TestZeroThatTheFormDemands: in Responses, where each server must write how much was cached, 0 says nothing until the
// server has said more. Elsewhere it is what it says, and so it is of a server that has said more.
func TestZeroThatTheFormDemands(t *testing.T) {
	chats := func(cached int) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"message":{"role":"assistant","content":"x"}}],"usage":{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":%d}}}`, cached)
	}
	responses := func(cached int) string {
		return fmt.Sprintf(`{"id":"resp_1","object":"response","output":[{"type":"message"}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":%d},"output_tokens":1}}`, cached)
	}
	for _, tt := range []struct {
		name, path string
		body       func(int) string
		stream     bool
		cached     []int
		known      []bool
	}{
		{"responses, never more", "/v1/responses", responses, false, []int{0, 0, 0}, []bool{false, false, false}},
		{"responses", "/v1/responses", responses, false, []int{0, 64, 0, 80}, []bool{false, true, true, true}},
		{"responses, streamed", "/v1/responses", responses, true, []int{0, 64, 0}, []bool{false, true, true}},
		{"chat", "/v1/chat/completions", chats, false, []int{0, 64, 0}, []bool{true, true, true}},
	} {
		t.Run(tt.name, bubbled(func(t *testing.T) {
			cached := 0
			r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
				if !tt.stream {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, tt.body(cached))
					return
				}
				streams("event: response.output_text.delta\n"+
					"data: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n",
					"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":"+tt.body(cached)+
						"}\n\n")(w, req)
			})
			for i, n := range tt.cached {
				cached = n
				res, body := r.post(tt.path,
					fmt.Sprintf(`{"model":"m","stream":%t,"messages":[],"input":"a"}`, tt.stream))
				if res.StatusCode != 200 || !strings.Contains(body, fmt.Sprintf(`"cached_tokens":%d`, n)) {
					t.Fatalf("%d %s", res.StatusCode, body)
				}
				if u := r.last(i + 1).Usage; u.CachedKnown != tt.known[i] || u.CachedTokens != n ||
					u.PromptTokens != 100 {
					t.Errorf("answer %d: %+v", i, u)
				}
			}
		}))
	}
}
