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

// Where endpoints need no roles (fleet.WhenFree), any of them may compute a prompt for any other, and doing both at one
// endpoint is one choice among many. An answer's wait for prompts counts for AnswerWaitCost, and what a request waits
// longer for its first token because its prompt is computed elsewhere counts twice: that is certain, what it saves
// others is not.
//
// Answers then gather where few prompts are computed, and prompts stay away from there: roles come about by themselves,
// as many of each kind as the traffic needs now.

// leastRoom is how many such prompts a decoder must have room for. A prompt that is computed elsewhere takes memory of
// two engines at once, and two large ones could each wait for the memory that the other one has.
const leastRoom = 4

// Free compares the endpoints that could do all of a request with the pairs that could split it. Its memory is reused.
type Free struct {
	whole   int     // the cheapest row for all of it
	wholeMs float64 // what that costs
	ttftMs  float64 // when the first token comes then
	prefill *pick.View
	// rows of the two cheapest endpoints for the prompt, -1 for none: one of them is not the decoder
	Prefiller [2]int
	promptMs  [2]float64 // what the prompt costs there

	wholeCosts []float64 // what doing all of it costs, for each row
	pairCosts  []float64 // the lower cost of the two pairs with it, for each row; -1 where there is none
}

// Begin reckons what all of the request costs at each endpoint, and what its prompt alone costs.
func (f *Free) Begin(prefill, whole *pick.View) {
	*f = Free{prefill: prefill, Prefiller: [2]int{-1, -1}, wholeCosts: f.wholeCosts[:0], pairCosts: f.pairCosts[:0]}
	s, t := cost.ForSplit(whole), pick.Terms{}
	for i := range whole.Candidates {
		cost.Estimate(whole, &whole.Candidates[i], &s, &t)
		f.wholeCosts = append(f.wholeCosts, t.Cost())
		f.pairCosts = append(f.pairCosts, -1)
	}
	f.whole, f.wholeMs = cheapest(whole, f.wholeCosts)
	cost.Estimate(whole, &whole.Candidates[f.whole], &s, &t)
	f.ttftMs = t.TTFT()
	s = cost.ForSplit(prefill)
	two, costs := &f.Prefiller, &f.promptMs
	for i := range prefill.Candidates {
		cost.Estimate(prefill, &prefill.Candidates[i], &s, &t)
		switch ms := t.Cost(); {
		case two[0] < 0 || ms < costs[0]:
			two[1], costs[1] = two[0], costs[0]
			two[0], costs[0] = i, ms
		case two[1] < 0 || ms < costs[1]:
			two[1], costs[1] = i, ms
		}
	}
}

// ReadyMs is how soon one of the two is predicted to have computed the prompt.
func (f *Free) ReadyMs(which int) float64 {
	return ReadyAt(f.prefill, &f.prefill.Candidates[f.Prefiller[which]])
}

// AddPairs reckons what answers cost whose prompt one of the two computes, at each decoder that has room. decode has
// the rows of whole, for when the prompt will be computed.
func (f *Free) AddPairs(which int, decode *pick.View) {
	o, s := &f.prefill.Candidates[f.Prefiller[which]], cost.ForSplit(decode)
	ready, base, t := f.ReadyMs(which), f.promptMs[which], pick.Terms{}
	for i := range decode.Candidates {
		c := &decode.Candidates[i]
		full := c.CacheTokens > 0 && int64(leastRoom*decode.PromptTokens) > c.CacheTokens
		if full || !Pairs(&o.Endpoint, &c.Endpoint) {
			continue
		}
		cost.Estimate(decode, c, &s, &t)
		sum := base + t.Cost() + max(0, ready+t.TTFT()-f.ttftMs)
		if f.pairCosts[i] < 0 || sum < f.pairCosts[i] {
			f.pairCosts[i] = sum
		}
	}
}

// Choose says whether a pair costs less, and who answers: a row of decode if it does, else of whole.
func (f *Free) Choose(decode *pick.View) (fleet.SplitWhy, fleet.Weighed, int) {
	pair, pairMs := cheapest(decode, f.pairCosts)
	if pair < 0 {
		return fleet.WholeSooner, fleet.Weighed{}, f.whole
	}
	w := fleet.Weighed{WholeMs: f.wholeMs, SplitMs: pairMs}
	if by := why(w); by != fleet.SplitSooner {
		return by, w, f.whole
	}
	return fleet.SplitSooner, w, pair
}

// cheapest is the row with the lowest cost that is not negative, -1 for none. Of those about as low the request's hash
// chooses, so that routers side by side do not all take the first.
func cheapest(v *pick.View, costs []float64) (best int, ms float64) {
	best = -1
	for i, c := range costs {
		if c >= 0 && (best < 0 || c < ms) {
			best, ms = i, c
		}
	}
	if best < 0 {
		return best, 0
	}
	least, at := ms, uint64(0)
	for i, c := range costs {
		if c < 0 || c > least+cost.NearMs {
			continue
		}
		if h := (v.Hash ^ v.Candidates[i].Key) * 0x9e3779b97f4a7c15; h>>11 >= at {
			best, at = i, h>>11
		}
	}
	return best, costs[best]
}
