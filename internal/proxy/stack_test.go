package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/stack"
	"github.com/warmpath/warmpath/route"
)

// conditional is a router as production-stack's PR 890 has it, in front of a prefiller that nobody reaches and a
// decoder.
func conditional(t *testing.T, cfg proxy.Config, threshold int, decoder http.HandlerFunc) *rig {
	t.Helper()
	r := newRouter(t, cfg, transportOf(t), route.Config{
		Policy: func() pick.Policy { return inOrder{} }, RetryFloor: 10,
		Disaggregation: route.Disaggregation{When: fleet.WhenTokens, Threshold: threshold, Tokens: stack.RequestTokens},
	}, []fleet.Endpoint{
		{Name: "p", URL: refuses(t), Weight: 1, Role: fleet.RolePrefill},
		{Name: "d", URL: serveEngine(t, decoder), Weight: 1, Role: fleet.RoleDecode},
	}, func(fleet.Kind) fleet.Report {
		return fleet.Report{Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}}}
	})
	r.listen(t)
	return r
}

// PR 890 goes straight to a decoder below the threshold, by a quarter of the characters of text: what stands in roles
// and tools counts nothing, and at the threshold itself a request is split.
func TestConditionalEstimate(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	tools := `,"tools":[{"type":"function","function":{"name":"f","description":"` + text(1600) + `"}}]`
	tests := []struct {
		name string
		body string
		why  fleet.SplitWhy // prefill_fails: it was split, and the prefiller is gone
	}{
		{
			"50 characters and 1.6 kB of tools",
			`{"model":"m","messages":[{"role":"user","content":"` + text(50) + `"}]` + tools + `}`, fleet.WholeShort,
		},
		{
			"just below", `{"model":"m","messages":[{"role":"system","content":"` + text(20) +
				`"},{"role":"user","content":"` + text(31) + `"}]}`, fleet.WholeShort,
		},
		{
			"at the threshold", `{"model":"m","messages":[{"role":"system","content":"` + text(20) +
				`"},{"role":"user","content":"` + text(32) + `"}]}`, fleet.WholePrefillFails,
		},
		{
			"parts", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + text(52) + `"}]}]}`,
			fleet.WholePrefillFails,
		},
		{
			"a picture",
			`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:` +
				text(500) + `"}}]}]}`, fleet.WholeShort,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := conditional(t, proxy.Config{Characters: true}, 13, answers(200, chatAnswer))
			if res, got := r.post("/v1/chat/completions", tt.body); res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, got)
			}
			why := r.last(1).Decision.Why
			if split := why != fleet.WholeShort; split != (tt.why != fleet.WholeShort) {
				t.Errorf("served as %s, want %s", why, tt.why)
			}
		})
	}
}

// PR 890 tells the error of a decoder that was asked directly in its own form; without the switch the engine's own
// words are passed on.
func TestConditionalErrors(t *testing.T) {
	const said = `{"error":{"message":"too long","type":"BadRequestError","code":400}}`
	for _, tt := range []struct {
		wraps  bool
		status int
		want   string
	}{
		{false, 400, said},
		{true, 400, `{"error":{"code":400,"message":"Decoder error: too long","type":"decoder_error"}}`},
		{false, 500, said},
		{true, 500, `{"error":{"code":500,"message":"Decoder error: too long","type":"decoder_error"}}`},
		{true, 200, chatAnswer},
	} {
		answer := said
		if tt.status == 200 {
			answer = chatAnswer
		}
		r := conditional(t, proxy.Config{Characters: true, WrapErrors: tt.wraps, Retries: -1}, 1000,
			answers(tt.status, answer))
		res, got := r.post("/v1/chat/completions", chatBody)
		if res.StatusCode != tt.status || got != tt.want {
			t.Errorf("wraps %t: %d %s, want %d %s", tt.wraps, res.StatusCode, got, tt.status, tt.want)
		}
	}
	for wraps, want := range map[bool]string{true: `"type":"decoder_error"`, false: `"type":"api_error"`} {
		broken := func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
		r := conditional(t, proxy.Config{Characters: true, WrapErrors: wraps, Retries: -1}, 1000, broken)
		if res, got := r.post("/v1/chat/completions", chatBody); res.StatusCode != http.StatusBadGateway ||
			!strings.Contains(got, want) {
			t.Errorf("a decoder that breaks off, wraps %t: %d %s, want 502 and %s", wraps, res.StatusCode, got, want)
		}
	}
}
