package route

import (
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/size"
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

// freely is scratch for a decision.
type freely struct {
	legs  []pick.Terms // of the candidates as decode legs
	costs []float64    // of the candidates as a whole, then of the pairs
	most  float64      // the heaviest of their weights
}

// weighFree decides whether a request is split, and who answers it. The candidates to answer are in r.view, those that could compute the
// prompt for them in r.other.
func (r *Router) weighFree(m *size.Prompt) (SplitWhy, Weighed, pick.Choice) {
	r.findPresent()
	r.freely.most = 0
	for i := range r.view.Candidates {
		r.freely.most = max(r.freely.most, r.view.Candidates[i].Weight)
	}
	for i := range r.other.view.Candidates {
		r.freely.most = max(r.freely.most, r.other.view.Candidates[i].Weight)
	}
	whole, wholeMs := r.bestWhole(m)
	pair, pairMs := r.bestPair(r.view.Candidates[whole].Terms.TTFT())
	w := Weighed{WholeMs: wholeMs, SplitMs: pairMs}
	if pair < 0 || pairMs+max(splitGainMs, float64(splitGainShare*wholeMs)) >= wholeMs {
		if pair < 0 {
			w = Weighed{}
		}
		return WholeSooner, w, pick.Choice{Index: whole, Reason: pick.ReasonWeighed}
	}
	for i := range r.view.Candidates {
		r.view.Candidates[i].Terms = r.freely.legs[i]
	}
	return SplitSooner, w, pick.Choice{Index: pair, Reason: pick.ReasonWeighed}
}

// bestWhole fills in what the candidates cost that would do all of it.
func (r *Router) bestWhole(m *size.Prompt) (best int, cost float64) {
	costs := r.freely.costs[:0]
	for i := range r.view.Candidates {
		c, ep := &r.view.Candidates[i], r.members[i].ep
		present := r.presentTokens(i, m)
		prefill := float64((float64(r.view.PromptTokens-present) + ep.uncertain(c, present)) * c.MsPerToken)
		t := pick.Terms{Wait: c.WaitMs, Prefill: prefill, Fixed: c.FixedMs, Evict: r.evicts(c, prefill)}
		t.Others = stalls(ep, prefill) + float64(comersCount*burden(c, c.WaitMs, prefill)) + r.answers(c, ep)
		c.Terms = t
		costs = append(costs, r.weighted(c, &t))
	}
	r.freely.costs = costs
	return r.cheapest(costs)
}

// stalls is what those count for who are answered at an endpoint, and wait for a prompt of so many ms.
func stalls(ep *endpoint, prefill float64) float64 {
	return float64(promptShare * float64(float64(ep.decoding())*prefill))
}

// bestPair finds who would answer if another one computed the prompt; -1 when there is no such pair. For each that could answer only the
// two cheapest for the prompt are looked at: one of them is another endpoint. whole is when the first token would come otherwise, in ms.
func (r *Router) bestPair(whole float64) (best int, cost float64) {
	var two [2]int
	var base [2]float64
	n := 0
	for i := range r.other.view.Candidates {
		c, ep := &r.other.view.Candidates[i], r.other.members[i].ep
		prefill := float64((float64(r.other.view.PromptTokens-c.CachedTokens) + ep.uncertain(c, c.CachedTokens)) * c.MsPerToken)
		c.DelayMs = stalls(ep, prefill)
		t := pick.Terms{Wait: c.WaitMs, Prefill: prefill, Fixed: c.FixedMs, Others: c.DelayMs + float64(comersCount*burden(c, c.WaitMs, prefill)), Evict: r.evicts(c, prefill)}
		switch cost := r.weighted(c, &t); {
		case n == 0 || cost < base[0]:
			two[1], base[1] = two[0], base[0]
			two[0], base[0] = i, cost
		case n == 1 || cost < base[1]:
			two[1], base[1] = i, cost
		}
		n++
	}
	costs, legs := r.freely.costs[:0], r.freely.legs[:0]
	for i := range r.view.Candidates {
		c, ep := &r.view.Candidates[i], r.members[i].ep
		cost, terms := -1.0, pick.Terms{}
		full := c.CacheTokens > 0 && int64(mostTwice*r.view.PromptTokens) > c.CacheTokens
		for k := range min(n, 2) {
			if o := r.other.members[two[k]].ep; full || o == ep || o.kind() != ep.kind() || r.other.view.Candidates[two[k]].Model != c.Model {
				continue
			}
			t, first := r.answersFor(i, &r.other.view.Candidates[two[k]])
			if sum := base[k] + r.weighted(c, &t) + max(0, first+t.TTFT()-whole); cost < 0 || sum < cost {
				cost, terms = sum, t
			}
		}
		costs, legs = append(costs, cost), append(legs, terms)
	}
	r.freely.costs, r.freely.legs = costs, legs
	return r.cheapest(costs)
}

// answersFor is what a candidate costs that answers what another one has computed, and in how many ms that will be.
func (r *Router) answersFor(i int, prefiller *pick.Candidate) (t pick.Terms, first float64) {
	c, ep := &r.view.Candidates[i], r.members[i].ep
	first = prefiller.WaitMs + prefiller.FixedMs + float64(float64(r.view.PromptTokens-prefiller.CachedTokens)*prefiller.MsPerToken)
	pace := r.transferOf(r.view.Now, ep)
	moved := float64(r.view.PromptTokens - c.CachedTokens)
	besides := r.besides(ep, pace, moved, first)
	return pick.Terms{
		Wait: max(0, r.legWaitMs(i)-first) + besides, Prefill: float64(moved * pace.perToken), Fixed: pace.fixed,
		Others: r.answers(c, ep) + besides, Evict: r.evicts(c, float64(moved*c.MsPerToken)),
	}, first
}

// answers is what an answer costs at a candidate beyond the time that it takes there alone: the prompts that are computed meanwhile, and
// the others that are answered in the same steps. Those are slowed by it as much as it by them, but are not counted: that would spread
// answers over endpoints that prompts then have to keep away from.
func (r *Router) answers(c *pick.Candidate, ep *endpoint) float64 {
	others := max(0, ep.load.Requests-ep.speed.prompts)
	token, perOther := r.paceOf(ep, others)
	tokens := float64(r.view.OutputTokens)
	alone := float64(tokens * token)
	waits := alone/(1-min(c.Steady, mostBusy)) - alone
	cost := float64(r.late.of()*waits) + float64(float64(tokens*perOther)*float64(others))
	crowd := min(c.Crowd, mostBusy) // of places and memory, as the policy least_ttft reckons it
	return cost + float64(c.CrowdMs*crowd)/(1-crowd)
}

// evicts is what computing again costs that is pushed out of a full cache.
func (r *Router) evicts(c *pick.Candidate, ms float64) float64 {
	if !c.Full {
		return 0
	}
	return float64(ms * r.view.Missed)
}

// weighted is the cost of a candidate; at one of less weight than others everything counts for more.
func (r *Router) weighted(c *pick.Candidate, t *pick.Terms) float64 {
	if w := c.Weight / r.freely.most; w < 1 {
		t.Others = (t.Wait+t.Prefill+t.Others)/w - t.Wait - t.Prefill
	}
	return t.Cost()
}

// cheapest is the index of the lowest cost that is not negative, -1 for none. Of those about as low the request's hash chooses, so that
// routers side by side do not all take the first.
func (r *Router) cheapest(costs []float64) (best int, cost float64) {
	best = -1
	for i, c := range costs {
		if c >= 0 && (best < 0 || c < cost) {
			best, cost = i, c
		}
	}
	if best < 0 {
		return best, 0
	}
	least, at := cost, uint64(0)
	for i, c := range costs {
		if c < 0 || c > least+nearlyMs {
			continue
		}
		if h := (r.view.Hash ^ r.view.Candidates[i].Key) * 0x9e3779b97f4a7c15; h>>11 >= at {
			best, at = i, h>>11
		}
	}
	return best, costs[best]
}
