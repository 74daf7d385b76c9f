// Package split decides which legs a request has, and why: one endpoint for all of it, or one that computes its prompt
// and another that answers.
//
// It owns the rules, whose words are in package fleet, and what waits count for in them. It compares costs (package
// cost) of the rows that it is shown and knows no endpoints: its caller says which of them may compute, which may
// answer, and in how many ms a transfer can begin. It keeps no state and never places anything.
package split

import (
	"math"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cost"
)

// Rule is when requests are split.
type Rule struct {
	When      fleet.SplitWhen
	Threshold int                      // tokens, of WhenTokens and WhenUncached
	Tokens    func(*fleet.Request) int // measures a prompt for fleet.WhenTokens; nil is the router's own estimate
}

// Interference is the weight of a ms by which a prompt delays a request being answered beside it: 1, and less without
// roles, where the cost of that answer already contained most of it.
func (r *Rule) Interference() float64 {
	if r.When == fleet.WhenFree {
		return promptShare
	}
	return 1
}

// Pool is what a rule needs to know of the endpoints.
type Pool struct {
	Splits bool // they have roles, or need none
	Must   bool // those that decode take no whole requests
}

// ByRequest says whether a request is split as far as the request and its pool tell. Where they do not, it is
// undecided: Uncached, Time or Free then decide by the rows of the candidates.
func (r *Rule) ByRequest(p Pool, req *fleet.Request, tokens int) (why fleet.SplitWhy, undecided bool) {
	switch {
	case !p.Splits || req.Class != fleet.Turn:
		return "", false
	case req.Pin != "":
		return fleet.WholePinned, false
	case req.Fails:
		return fleet.WholePrefillFails, false
	case !req.Splits:
		return fleet.WholeUnfit, false
	case p.Must:
		return fleet.SplitAlways, false
	}
	switch r.When {
	case fleet.WhenNever:
		return fleet.WholeNever, false
	case fleet.WhenAlways:
		return fleet.SplitAlways, false
	case fleet.WhenTokens:
		if r.Tokens != nil {
			tokens = r.Tokens(req)
		}
		if tokens < r.Threshold {
			return fleet.WholeShort, false
		}
		return fleet.SplitLong, false
	default:
		return "", true
	}
}

// Uncached decides by what the endpoint that was picked to decode has of the prompt. One that has nothing leaves the
// prompt to others however short it is (TensorRT-LLM, openai_disagg_service.py).
func (r *Rule) Uncached(v *pick.View, picked int) fleet.SplitWhy {
	cached := v.Candidates[picked].CachedTokens
	if cached == 0 || v.PromptTokens-cached > r.Threshold {
		return fleet.SplitUncached
	}
	return fleet.WholeWarm
}

const (
	gainShare   = 0.05 // share of what the whole costs that a split must gain, and cost.NearMs at least
	promptShare = 0.25 // see Interference
)

// AnswerWaitCost is what a ms counts for that an answer waits for prompts, where endpoints need no roles: interruptions
// of an answer are seen, and one that goes on for long meets many.
const AnswerWaitCost = 2.5

// why says which is cheaper, by enough.
func why(w fleet.Weighed) fleet.SplitWhy {
	if w.SplitMs+max(cost.NearMs, float64(gainShare*w.WholeMs)) < w.WholeMs {
		return fleet.SplitSooner
	}
	return fleet.WholeSooner
}

// Time decides by what it costs at the best endpoint that could do all of it, against the best that could compute the
// prompt and the best that could answer then.
func Time(prefill, whole, decode *pick.View) (fleet.SplitWhy, fleet.Weighed) {
	w := fleet.Weighed{WholeMs: lowest(whole), SplitMs: lowest(prefill) + lowest(decode)}
	return why(w), w
}

// lowest is the cost of the cheapest row.
func lowest(v *pick.View) float64 {
	s, t, least := cost.ForSplit(v), pick.Terms{}, math.Inf(1)
	for i := range v.Candidates {
		cost.Estimate(v, &v.Candidates[i], &s, &t)
		least = min(least, t.Cost())
	}
	return least
}

// Pairs reports whether one endpoint can compute a prompt that the other answers. Whether the decoder has room for it
// is asked without roles only, see leastRoom: decoders with a role are taken to have it.
func Pairs(prefiller, decoder *pick.Endpoint) bool {
	return prefiller.Slot != decoder.Slot && prefiller.Model == decoder.Model && prefiller.Kind == decoder.Kind
}

// ReadyMs is how soon the best of a prefill leg's rows is predicted to have computed the prompt; 0 where there are
// none.
func ReadyMs(prefill *pick.View) float64 {
	best := -1.0
	for i := range prefill.Candidates {
		if ms := ReadyAt(prefill, &prefill.Candidates[i]); best < 0 || ms < best {
			best = ms
		}
	}
	return max(best, 0)
}

// ReadyAt is how soon one endpoint is predicted to have computed the prompt.
func ReadyAt(v *pick.View, c *pick.Candidate) float64 {
	own := cost.OwnTerms(v.PromptTokens, &c.Cached, &c.Pace, &c.Wait)
	return own.Wait + own.Fixed + own.Prefill
}
