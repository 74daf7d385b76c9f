package split

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cost"
)

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
