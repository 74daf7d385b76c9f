package proxy_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// TestFirstTurnIsTold: with the switch on, disaggregated_params carry is_first_turn in both schedule styles, and
// nothing else of the body changes; a body without them gets none.
func TestFirstTurnIsTold(t *testing.T) {
	const (
		contextFirst    = `{"model":"m","messages":[],"disaggregated_params":{"request_type":"context_only","disagg_request_id":1234567890123456789,"schedule_style":0}}`
		generationFirst = `{"model":"m","messages":[],"disaggregated_params":{"request_type":"generation_only","ctx_request_id":1234567890123456789,"schedule_style":1}}`
		plain           = `{"model":"m","messages":[]}`
	)
	with := func(body, value string) string {
		return strings.Replace(body, `params":{`, `params":{"is_first_turn":`+value+`,`, 1)
	}
	tests := []struct {
		name       string
		on         bool
		kind       fleet.Kind
		body       string
		want, next string // of the first and the second turn
	}{
		{
			"context first", true, fleet.KindTRTLLM, contextFirst, with(contextFirst, "true"),
			with(contextFirst, "false"),
		},
		{
			"generation first", true, fleet.KindTRTLLM, generationFirst, with(generationFirst, "true"),
			with(generationFirst, "false"),
		},
		{
			"said already", true, fleet.KindTRTLLM, with(contextFirst, "false"), with(contextFirst, "true"),
			with(contextFirst, "false"),
		},
		{"nothing is split", true, fleet.KindTRTLLM, plain, plain, plain},
		{
			"no object", true, fleet.KindTRTLLM, `{"model":"m","disaggregated_params":null}`,
			`{"model":"m","disaggregated_params":null}`, `{"model":"m","disaggregated_params":null}`,
		},
		{"off", false, fleet.KindTRTLLM, contextFirst, contextFirst, contextFirst},
		{"another kind", true, fleet.KindVLLM, contextFirst, contextFirst, contextFirst},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in inbox
			r := newRig(t, proxy.Config{Transfers: true, FirstTurn: tt.on}, in.handler)
			r.as(tt.kind, "")
			for turn, want := range []string{tt.want, tt.next} {
				if res, body := r.post("/v1/chat/completions", tt.body, "X-Session-ID", "s"); res.StatusCode != 200 {
					t.Fatalf("%d %s", res.StatusCode, body)
				}
				if in.raw != want {
					t.Errorf("turn %d: the engine got %s, want %s", turn+1, in.raw, want)
				}
			}
		})
	}
}

// TestFirstTurnWithoutAnID is false, whatever the router makes of it.
func TestFirstTurnWithoutAnID(t *testing.T) {
	var in inbox
	r := newRig(t, proxy.Config{Transfers: true, FirstTurn: true, ByContent: true}, in.handler)
	r.as(fleet.KindTRTLLM, "")
	r.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a"}],"disaggregated_params":{}}`)
	if want := `"disaggregated_params":{"is_first_turn":false}`; !strings.Contains(in.raw, want) {
		t.Errorf("the engine got %s, want %s in it", in.raw, want)
	}
}
