package basic

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// sessionPolicy keeps a conversation at its endpoint while that can take the request, whatever its load, and places all others
// by another policy (session affinity of llm-d, inference payload processor, PR 178). The reason for staying is
// pick.ReasonSession; otherwise it is the other policy's.
type sessionPolicy struct{ fallback pick.Policy }

// NewSession makes session with a policy for conversations without an endpoint.
func NewSession(fallback pick.Policy) pick.Policy {
	p := sessionPolicy{fallback: fallback}
	if books, ok := p.fallback.(pick.Keeping); ok {
		return sessionKeeping{p, books}
	}
	return p
}

// sessionKeeping is a sessionPolicy whose fallback is Keeping: it hears of requests that stay too.
type sessionKeeping struct {
	sessionPolicy
	books pick.Keeping
}

// Reserved implements pick.Keeping.
func (p sessionKeeping) Reserved(l fleet.Lease, c *pick.Candidate, v *pick.View, r *fleet.Request) {
	p.books.Reserved(l, c, v, r)
}

// Released implements pick.Keeping.
func (p sessionKeeping) Released(l fleet.Lease, answered bool) { p.books.Released(l, answered) }

// Forget implements pick.Forgetting.
func (p sessionPolicy) Forget(endpoint uint64) {
	if f, ok := p.fallback.(pick.Forgetting); ok {
		f.Forget(endpoint)
	}
}

// StepsAlone implements pick.Stepping.
func (p sessionPolicy) StepsAlone() bool { return pick.PlacesAlone(p.fallback) }

// CountsBlocks implements pick.Counting.
func (p sessionPolicy) CountsBlocks() bool {
	c, ok := p.fallback.(pick.Counting)
	return ok && c.CountsBlocks()
}

// AwaitsReturns implements pick.Awaiting.
func (p sessionPolicy) AwaitsReturns() bool {
	a, ok := p.fallback.(pick.Awaiting)
	return ok && a.AwaitsReturns()
}

// Shortlists implements pick.Shortlisting: the home of a conversation has a row in any case.
func (p sessionPolicy) Shortlists() bool {
	s, ok := p.fallback.(pick.Shortlisting)
	return ok && s.Shortlists()
}

// Heard implements pick.Hearing.
func (p sessionPolicy) Heard(t *pick.Heard) {
	if h, ok := p.fallback.(pick.Hearing); ok {
		h.Heard(t)
	}
}

// Pick implements pick.Policy.
func (p sessionPolicy) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	if v.Home >= 0 && v.Home < len(v.Candidates) {
		return pick.Choice{Index: v.Home, Reason: pick.ReasonSession}
	}
	return p.fallback.Pick(v, r)
}

// Placed implements pick.Placing.
func (p sessionPolicy) Placed(v *pick.View, r *fleet.Request, c pick.Choice) {
	if f, ok := p.fallback.(pick.Placing); ok && !(v.Home >= 0 && v.Home < len(v.Candidates)) {
		f.Placed(v, r, c)
	}
}
