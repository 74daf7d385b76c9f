package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cost"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/miss"
)

// mostKept is the number of candidates recorded per decision: the chosen one, then the cheapest others.
const mostKept = 16

// explanation is what a reservation keeps to explain its decision later.
type explanation struct {
	candidates []pick.Candidate // the chosen one first, then the best others by cost
	parts      []Costs          // of each of these
	scope      string           // of their terms, see Ended.Scope
	home       string           // the conversation's home before the decision; "" for none
	miss       miss.Expected
}

// Costs is what the terms of a candidate consist of.
type Costs struct {
	Uncached    float64    // tokens that its prefill or transfer is reckoned for
	Externality cost.Parts // of Terms.Externality; zero where the policy has a formula of its own
}

// The scopes of terms, see package cost. The last is of those that a policy has filled in by a formula of its own.
const (
	ScopeOfChoice  = cost.Choice  // for choosing an endpoint
	ScopeOfSplit   = cost.Split   // for deciding whether a request is split
	ScopeOfRequest = cost.Request // what the request itself waits for
	ScopeOfPolicy  = "policy"
)

// costsOf says what the terms of a candidate consist of if they were reckoned in a scope, and that scope's name; it is
// ScopeOfPolicy if they were not.
func costsOf(v *pick.View, c *pick.Candidate, s *cost.Scope) (x Costs, scope string) {
	var is pick.Terms
	parts := cost.Estimate(v, c, s, &is)
	if is.Externality != c.Terms.Externality {
		return Costs{}, ScopeOfPolicy
	}
	return Costs{cost.Uncached(v, c), parts}, s.String()
}

// fillTerms returns a candidate's predicted time to first token in ms; 0 when unknown. If the policy does not estimate
// time, or was not asked, it fills in the terms first.
func fillTerms(req *fleet.Request, v *pick.View, index int, s *cost.Scope) float64 {
	if req.Class != fleet.Turn || v.PromptTokens == 0 {
		return 0
	}
	c := &v.Candidates[index]
	if c.Terms == (pick.Terms{}) {
		cost.Estimate(v, c, s, &c.Terms)
	}
	return c.Terms.TTFT()
}

// explain records the candidates of a decision, in the reservation's own memory, which is reused. scope is the one in
// which the terms of the chosen one were reckoned.
func (r *Router) explain(q *asked, p *placement, res *reservation, scope *cost.Scope) {
	req, v, who, chosen := q.req, p.view, p.who, p.choice.Index
	res.explanation.miss = r.expectMiss(q, p, res)
	res.explanation.home = ""
	if who.Known {
		res.explanation.home = who.Entry.Endpoint
	}
	var best [mostKept - 1]int
	n := 0
	for i := range v.Candidates {
		fillTerms(req, v, i, &p.scope)
		if i == chosen {
			continue
		}
		costs := v.Candidates[i].Terms.Cost()
		at := n
		for at > 0 && v.Candidates[best[at-1]].Terms.Cost() > costs {
			at--
		}
		if at == len(best) {
			continue
		}
		n = min(n+1, len(best))
		copy(best[at+1:n], best[at:n-1])
		best[at] = i
	}
	kept := append(res.explanation.candidates[:0], v.Candidates[chosen])
	for _, i := range best[:n] {
		kept = append(kept, v.Candidates[i])
	}
	parts, reckons := res.explanation.parts[:0], ""
	for i := range kept {
		if kept[i].Terms == (pick.Terms{}) {
			parts = append(parts, Costs{})
			continue
		}
		x, is := costsOf(v, &kept[i], scope)
		if reckons != ScopeOfPolicy {
			reckons = is
		}
		parts = append(parts, x)
	}
	res.explanation.candidates, res.explanation.parts, res.explanation.scope = kept, parts, reckons
}

// expectMiss says what the request that was just reserved is expected to miss.
func (r *Router) expectMiss(q *asked, p *placement, res *reservation) miss.Expected {
	v, last := p.view, &p.who.Entry
	of := miss.Placed{Request: q.req, Size: q.size, View: v, Chosen: p.row()}
	if p.who.Known && last.Prompt > 0 {
		cached := 0
		if v.Home >= 0 {
			cached = v.Candidates[v.Home].Blocks
		}
		names := r.cache.Names(&q.lookups, q.req, q.size.Tokens, of.Chosen.Model)
		of.Last, of.Differs = last, cache.DifferenceOf(names, last.Bytes, last.Marks, cached)
		of.Work = int(float64(r.cache.Work(res.index, last.Flow)) * q.pool.TokensPerByte())
	}
	return r.misses.Expect(&of)
}

// TTFT is the time from the decision to the first data of the answer. ok is false without data, and for non-streamed
// answers, whose first data comes at the end.
func (e *Ended) TTFT() (d time.Duration, ok bool) {
	if !e.Stream || e.FirstByte.IsZero() || e.Class != fleet.Turn {
		return 0, false
	}
	return max(0, e.FirstByte.Sub(e.Routed)), true
}

// Regret is the observed TTFT minus the best alternative's predicted TTFT, in ms, at least 0. ok is false when it is
// unknown: no first token, no other candidate, or no recorded candidates (Config.Explain).
func (e *Ended) Regret() (regret float64, ok bool) {
	took, ok := e.TTFT()
	if !ok || len(e.Candidates) < 2 || e.Decision.TTFTMs == 0 {
		return 0, false
	}
	best := e.Candidates[1].Terms.TTFT()
	for i := 2; i < len(e.Candidates); i++ {
		best = min(best, e.Candidates[i].Terms.TTFT())
	}
	if e.Decision.Leg == fleet.LegDecode { // whose candidates' terms exclude prefill
		best += max(0, e.Decision.TTFTMs-e.Candidates[0].Terms.TTFT())
	}
	return max(0, fleet.Ms(took)-best), true
}
