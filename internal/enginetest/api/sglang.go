package api

import "github.com/warmpath/warmpath/sim/text"

// NewGenerate writes answers of /generate.
func NewGenerate(s Style) Shape { return &generate{s} }

// generate writes answers of /generate.
type generate struct{ Style }

func (*generate) ContentType() string { return "text/event-stream" }

func (g *generate) value(a *Answer, done bool) map[string]any {
	p := a.Progress
	meta := map[string]any{
		"id": a.Ask.Id, "prompt_tokens": a.PromptTokens, "completion_tokens": a.Made, "cached_tokens": a.cachedTokens(),
		"cached_tokens_details": nil, "dp_rank": nil, "weight_version": "default", "simulated": true,
		"e2e_latency": p.Last.Sub(p.Submitted).Seconds(), "first_token_latency": p.Prefilled.Sub(p.Submitted).Seconds(),
		"finish_reason": nil,
	}
	if p.Cached > 0 {
		meta["cached_tokens_details"] = map[string]any{"device": p.Cached, "host": 0}
	}
	if g.Ranks > 1 {
		meta["dp_rank"] = a.Rank
	}
	if done {
		reason := map[string]any{"type": a.Finish}
		if a.Finish == "length" {
			reason["length"] = a.Made
		}
		meta["finish_reason"] = reason
	}
	return map[string]any{"text": a.Text[:a.Made*text.TokenBytes], "meta_info": meta}
}

func (*generate) Open(b []byte, _ *Answer) []byte { return b }

func (g *generate) Token(b []byte, a *Answer, i int) []byte {
	grown := *a
	grown.Made = i + 1
	return event(b, g.value(&grown, i+1 == a.Want))
}

func (*generate) Closing(b []byte, _ *Answer) []byte { return append(b, "data: [DONE]\n\n"...) }

func (*generate) Failure(b []byte, _ int, msg string) []byte {
	b = event(b, map[string]any{"error": map[string]any{"message": msg}})
	return append(b, "data: [DONE]\n\n"...)
}

func (g *generate) Whole(a *Answer) any { return g.value(a, true) }
