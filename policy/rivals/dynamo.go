package rivals

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
)

// dynamo is NVIDIA Dynamo's router mode kv with its defaults (ai-dynamo/dynamo 1.5, lib/llm/src/kv_router; overlap
// score credit 1, prefill load scale 1, temperature 0):
//
//	cost = max(prompt tokens not yet computed there + those of this prompt - those cached, 0) / block
//	     + (blocks of active requests there + blocks of this prompt)
//
// The smallest cost is picked, exact ties evenly at random. Dynamo's index follows the engines' events; here it is
// Candidate.CachedTokens. All terms are in blocks, so they are computed in tokens.
//
// A block shared by several active requests counts once, as with its --router-assume-kv-reuse; if the prompt is
// unknown, once per request. Host and disk tiers are not modelled.
type dynamo struct{ pick.Plain }

// NewDynamo makes the policy dynamo.kv.
func NewDynamo() pick.Policy {
	return dynamo{pick.Plain{Name: "dynamo.kv", Exact: true, Content: true, Active: true}}
}

// Pick implements pick.Policy.
func (dynamo) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	at := fair.Lowest(v, func(c *pick.Candidate) float64 {
		prefill := max(c.Load.PrefillTokens+int64(v.PromptTokens-c.CachedTokens), 0)
		// output blocks are not tracked by default
		active := c.Load.ContextTokens - c.Load.DecodeTokens + int64(v.PromptTokens)
		if v.Counted {
			active = c.ActiveTokens + int64(c.AddsTokens)
		}
		return float64(prefill + active)
	})
	return pick.Choice{Index: at, Reason: reasons.Score}
}
