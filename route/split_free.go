package route

import (
	"github.com/warmpath/warmpath/pick"
)

// Where endpoints need no roles (WhenFree), any of them may compute a prompt for any other, and a request that is answered where its
// prompt is computed is one choice among many. What a pair of endpoints costs is reckoned as a whole, in ms of all who wait:
//
//   - who is answered waits for every prompt that is computed beside it. A quarter of that is charged to the prompt, once for each who is answered
//     there now. The answer is charged for the share of its time that goes into prompts there, by what the endpoint computed over minutes:
//     a role that has come about is worth keeping, and the prompt of a moment ago says nothing about the next. How much that counts for
//     is learnt, see interruptions;
//   - all who are answered at one endpoint are in one step, so each makes it longer;
//   - a transfer takes time, and what is moved takes the place of something else. What a request waits longer for its first token because
//     its prompt is computed elsewhere counts twice: that is certain, what it saves others is not.
//
// Answers then gather where few prompts are computed, and prompts stay away from there: roles come about by themselves, as many of each
// kind as the traffic needs now, and an endpoint without answers to make does no worse than in a fleet that splits nothing. Prompts that
// come later are no part of it: they pay for the answers that they find, or go elsewhere.

// mostBusy is up to which share of time spent on prompts the time of an answer is reckoned: queues do not last for ever.
const mostBusy = 0.9

// mostTwice is which part of the memory of who would answer it a prompt may take to be in that of two at a time, 1 to so many: two of them that each
// wait at both for what the other holds get nowhere.
const mostTwice = 4

// nearlyMs is what costs may differ by for one to be as good as the other.
const nearlyMs = 1.0

// comersCount is how many times what those wait counts who come after, as in the policy least_ttft: some of them then go where they have
// to compute again what they had.
const comersCount = 2

// weighFree decides whether a request is split, and who answers it. It prices all rows: those of whole for all of the request, those of
// decode for an answer whose prompt another endpoint computes.
func (r *Router) weighFree(d *decision) (SplitWhy, Weighed, pick.Choice) {
	most := 0.0 // the heaviest weight
	for i := range d.whole.Candidates {
		most = max(most, d.whole.Candidates[i].Weight)
	}
	for i := range d.prefill.Candidates {
		most = max(most, d.prefill.Candidates[i].Weight)
	}
	whole, wholeMs := r.bestWhole(d, most)
	pair, pairMs := r.bestPair(d, most, d.whole.Candidates[whole].Terms.TTFT())
	w := Weighed{WholeMs: wholeMs, SplitMs: pairMs}
	if pair < 0 || pairMs+max(splitGainMs, float64(splitGainShare*wholeMs)) >= wholeMs {
		if pair < 0 {
			w = Weighed{}
		}
		return WholeSooner, w, pick.Choice{Index: whole, Reason: pick.ReasonWeighed}
	}
	return SplitSooner, w, pick.Choice{Index: pair, Reason: pick.ReasonWeighed}
}

// bestWhole prices the rows for all of the request.
func (r *Router) bestWhole(d *decision, most float64) (best int, cost float64) {
	v := &d.whole
	for i := range v.Candidates {
		c := &v.Candidates[i]
		prefill := float64((float64(v.PromptTokens-c.PresentTokens) + c.Unsure) * c.MsPerToken)
		t := pick.Terms{Wait: c.WaitMs, Prefill: prefill, Fixed: c.FixedMs}
		t.Others = stalls(c, prefill) + float64(comersCount*burden(c, c.WaitMs, prefill)) + r.answers(v, c)
		c.Terms = t
		c.WeighedMs = weighted(c, &t, most)
	}
	return cheapest(v)
}

// stalls is what those count for who are answered at an endpoint, and wait for a prompt of so many ms.
func stalls(c *pick.Candidate, prefill float64) float64 {
	return float64(promptShare * float64(float64(c.Decoding)*prefill))
}

// bestPair prices the rows for an answer whose prompt another endpoint computes; the best is -1 when there is no such pair. For each that could
// answer only the two cheapest for the prompt are looked at: one of them is another endpoint. whole is when the first token would come otherwise, in ms.
func (r *Router) bestPair(d *decision, most, whole float64) (best int, cost float64) {
	var two [2]*pick.Candidate
	var base [2]float64
	p := &d.prefill
	for i := range p.Candidates {
		c := &p.Candidates[i]
		prefill := float64((float64(p.PromptTokens-c.CachedTokens) + c.Unsure) * c.MsPerToken)
		c.DelayMs = stalls(c, prefill)
		t := pick.Terms{Wait: c.WaitMs, Prefill: prefill, Fixed: c.FixedMs, Others: c.DelayMs + float64(comersCount*burden(c, c.WaitMs, prefill))}
		switch cost := weighted(c, &t, most); {
		case two[0] == nil || cost < base[0]:
			two[1], base[1] = two[0], base[0]
			two[0], base[0] = c, cost
		case two[1] == nil || cost < base[1]:
			two[1], base[1] = c, cost
		}
	}
	v := d.startDecode()
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.WeighedMs, c.Terms = -1, pick.Terms{}
		full := c.CacheTokens > 0 && int64(mostTwice*v.PromptTokens) > c.CacheTokens
		for k, o := range two {
			if o == nil || full || o.Slot == c.Slot || o.Kind != c.Kind || o.Model != c.Model {
				continue
			}
			t, first := r.answersFor(d, c, o)
			if sum := base[k] + weighted(c, &t, most) + max(0, first+t.TTFT()-whole); c.WeighedMs < 0 || sum < c.WeighedMs {
				c.WeighedMs, c.Terms = sum, t
			}
		}
	}
	return cheapest(v)
}

// answersFor is what an endpoint costs that answers what another one has computed, and in how many ms that will be.
func (r *Router) answersFor(d *decision, c, prefiller *pick.Candidate) (t pick.Terms, first float64) {
	v := &d.decode
	first = prefiller.WaitMs + prefiller.FixedMs + float64(float64(v.PromptTokens-prefiller.CachedTokens)*prefiller.MsPerToken)
	pace := r.speed.Reader().Transfer(d.now, c.Slot)
	moved := float64(v.PromptTokens - c.CachedTokens)
	shared := r.backlog.Reader().LinkMs(d.now, c.Slot, pace, moved, first)
	wait := r.backlog.Reader().LegWaitMs(d.now, c, r.speed.Reader())
	return pick.Terms{
		Wait: max(0, wait-first) + shared, Prefill: float64(moved * pace.MsPerToken), Fixed: pace.FixedMs,
		Others: r.answers(v, c) + shared,
	}, first
}

// answers is what an answer costs at an endpoint beyond the time that it takes there alone: the prompts that are computed meanwhile, and
// the others that are answered in the same steps. Those are slowed by it as much as it by them, but are not counted: that would spread
// answers over endpoints that prompts then have to keep away from.
func (r *Router) answers(v *pick.View, c *pick.Candidate) float64 {
	others := max(0, c.Load.Requests-c.Prompts)
	token, perOther := r.speed.Reader().Pace(c.Slot, others)
	tokens := float64(v.OutputTokens)
	alone := float64(tokens * token)
	waits := alone/(1-min(c.Steady, mostBusy)) - alone
	cost := float64(r.late.of()*waits) + float64(float64(tokens*perOther)*float64(others))
	crowd := min(c.Crowd, mostBusy) // of places and memory, as the policy least_ttft reckons it
	return cost + float64(c.CrowdMs*crowd)/(1-crowd)
}

// weighted is the cost of a placement; at an endpoint of less weight than the heaviest everything counts for more.
func weighted(c *pick.Candidate, t *pick.Terms, most float64) float64 {
	if w := c.Weight / most; w < 1 {
		t.Others = (t.Wait+t.Prefill+t.Others)/w - t.Wait - t.Prefill
	}
	return t.Cost()
}

// cheapest is the row with the lowest WeighedMs that is not negative, -1 for none. Of those about as low the request's hash chooses, so that
// routers side by side do not all take the first.
func cheapest(v *pick.View) (best int, cost float64) {
	best = -1
	for i := range v.Candidates {
		if c := v.Candidates[i].WeighedMs; c >= 0 && (best < 0 || c < cost) {
			best, cost = i, c
		}
	}
	if best < 0 {
		return best, 0
	}
	least, at := cost, uint64(0)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if c.WeighedMs < 0 || c.WeighedMs > least+nearlyMs {
			continue
		}
		if h := (v.Hash ^ c.Key) * 0x9e3779b97f4a7c15; h>>11 >= at {
			best, at = i, h>>11
		}
	}
	return best, v.Candidates[best].WeighedMs
}
