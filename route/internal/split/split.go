// Package split decides which legs a request has, and why: one endpoint for all of it, or one that computes its prompt
// and another that answers.
//
// It owns the rules, their words, and what waits count for in them. It compares costs (package cost) of the rows that
// it is shown and knows no endpoints: who may compute, who may answer, and in how many ms a transfer can begin it is
// told. It keeps no state and never places anything.
package split

import (
	"math"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cost"
)

// When says which requests a pool with roles splits.
type When string

// The ways to decide it. The zero value is WhenTime.
const (
	WhenTime When = "time" // those that are predicted to cost less in two legs, transfer included
	// as WhenTime, also where no endpoint has a role: who answers is chosen together with who computes the prompt
	WhenFree   When = "free"
	WhenAlways When = "always" // all that can be
	WhenNever  When = "never"  // none
	// those whose prompt has at least Threshold tokens (production-stack PR 890, --routing-threshold)
	WhenTokens When = "tokens"
	// those of whose prompt more than Threshold tokens, or all, are not cached at the decoder that was picked
	// (TensorRT-LLM, max_local_prefill_length)
	WhenUncached When = "uncached"
)

// Whens lists them.
func Whens() []When {
	return []When{WhenTime, WhenFree, WhenAlways, WhenNever, WhenTokens, WhenUncached}
}

// Rule is when requests are split.
type Rule struct {
	When      When
	Threshold int                      // tokens, see When
	Tokens    func(*fleet.Request) int // measures a prompt for WhenTokens; nil is the router's own estimate
}

// Interference is the weight of a ms by which a prompt delays a request being answered beside it: 1, and less without
// roles, where the cost of that answer already contained most of it.
func (r *Rule) Interference() float64 {
	if r.When == WhenFree {
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
func (r *Rule) ByRequest(p Pool, req *fleet.Request, tokens int) (why Why, undecided bool) {
	switch {
	case !p.Splits || req.Class != fleet.Turn:
		return "", false
	case req.Pin != "":
		return WholePinned, false
	case req.Fails:
		return WholePrefillFails, false
	case !req.Splits:
		return WholeUnfit, false
	case p.Must:
		return Always, false
	}
	switch r.When {
	case WhenNever:
		return WholeNever, false
	case WhenAlways:
		return Always, false
	case WhenTokens:
		if r.Tokens != nil {
			tokens = r.Tokens(req)
		}
		if tokens < r.Threshold {
			return WholeShort, false
		}
		return Long, false
	default:
		return "", true
	}
}

// Uncached decides by what the endpoint that was picked to decode has of the prompt. One that has nothing leaves the
// prompt to others however short it is (TensorRT-LLM, openai_disagg_service.py).
func (r *Rule) Uncached(v *pick.View, picked int) Why {
	cached := v.Candidates[picked].CachedTokens
	if cached == 0 || v.PromptTokens-cached > r.Threshold {
		return Uncached
	}
	return WholeWarm
}

const (
	gainShare   = 0.05 // share of what the whole costs that a split must gain, and cost.NearMs at least
	promptShare = 0.25 // see Interference
)

// AnswerWaitCost is what a ms counts for that an answer waits for prompts, where endpoints need no roles: interruptions
// of an answer are seen, and one that goes on for long meets many.
const AnswerWaitCost = 2.5

// Weighed is what a request was predicted to cost as a whole and in two legs, in ms; both are 0 when that was not
// asked. The costs are what the request waits, and what others wait for it.
type Weighed struct {
	WholeMs, SplitMs float64
}

// why says which is cheaper, by enough.
func (w *Weighed) why() Why {
	if w.SplitMs+max(cost.NearMs, float64(gainShare*w.WholeMs)) < w.WholeMs {
		return Sooner
	}
	return WholeSooner
}

// Time decides by what it costs at the best endpoint that could do all of it, against the best that could compute the
// prompt and the best that could answer then.
func Time(prefill, whole, decode *pick.View) (Why, Weighed) {
	w := Weighed{WholeMs: lowest(whole), SplitMs: lowest(prefill) + lowest(decode)}
	return w.why(), w
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

// Why says in one word why a request was split, or was not. The set is closed: it is a metric label.
type Why string

// Why a request goes to two endpoints.
const (
	Always   Why = "always"   // all are split
	Long     Why = "long"     // its prompt has at least the threshold of tokens
	Uncached Why = "uncached" // more of its prompt than the threshold is not cached where it would decode
	Sooner   Why = "sooner"   // with the transfer it is predicted to cost less than at one endpoint
	Kept     Why = "kept"     // its prompt is computed, and another decoder is to have it
)

// Why it goes to one endpoint although its pool could split it.
const (
	WholeNever  Why = "never"        // none is split
	WholeShort  Why = "short"        // its prompt has fewer tokens than the threshold
	WholeWarm   Why = "warm"         // no more of its prompt than the threshold is uncached where it decodes
	WholeSooner Why = "whole_sooner" // it is predicted to cost less at one endpoint
	// its kind cannot be split: several answers, several prompts, an API without a protocol
	WholeUnfit Why = "unfit"
	// it must go to one endpoint: pinned, or the holder of the response it refers to
	WholePinned       Why = "pinned"
	WholeNoPrefiller  Why = "no_prefiller"  // no other endpoint can compute its prompt now
	WholePrefillFails Why = "prefill_fails" // its prefill leg failed, and the decoder computes the prompt itself
)

// Whys lists the words, those of requests that are split first.
func Whys() []Why {
	return []Why{
		Always, Long, Uncached, Sooner, Kept,
		WholeNever, WholeShort, WholeWarm, WholeSooner, WholeUnfit, WholePinned, WholeNoPrefiller, WholePrefillFails,
	}
}

// Splits reports whether the word is one of a request that goes to two endpoints.
func (w Why) Splits() bool {
	return w == Always || w == Long || w == Uncached || w == Sooner || w == Kept
}
