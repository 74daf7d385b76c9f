package policy

import "github.com/warmpath/warmpath/route"

const nameSession = "session"

// sessionPolicy keeps a conversation at its endpoint while that can take the request, whatever its load, and places
// all others by another policy (session affinity of llm-d, inference payload processor, PR 178). Its reason for
// staying is route.ReasonSession; otherwise the reason is the other policy's.
type sessionPolicy struct{ fallback route.Policy }

// newSession makes the fallback from the same configuration, so that the options of consistent_hash hold there too.
func newSession(c Config) route.Policy {
	k, _ := find(c.Session.Fallback)
	p := sessionPolicy{fallback: k.make(c)}
	if books, ok := p.fallback.(route.Keeping); ok {
		return sessionKeeping{p, books}
	}
	return p
}

// sessionKeeping is a sessionPolicy whose fallback keeps books: it is told of what stays at its endpoint too.
type sessionKeeping struct {
	sessionPolicy
	books route.Keeping
}

// Reserved implements route.Keeping.
func (p sessionKeeping) Reserved(l route.Lease, c *route.Candidate, v *route.View, r *route.Request) {
	p.books.Reserved(l, c, v, r)
}

// Released implements route.Keeping.
func (p sessionKeeping) Released(l route.Lease, answered bool) { p.books.Released(l, answered) }

// CountsBlocks implements route.Counting.
func (p sessionPolicy) CountsBlocks() bool {
	c, ok := p.fallback.(route.Counting)
	return ok && c.CountsBlocks()
}

// AwaitsReturns implements route.Awaiting.
func (p sessionPolicy) AwaitsReturns() bool {
	a, ok := p.fallback.(route.Awaiting)
	return ok && a.AwaitsReturns()
}

// Pick implements route.Policy.
func (p sessionPolicy) Pick(v *route.View, r *route.Request) route.Choice {
	if v.Home >= 0 && v.Home < len(v.Candidates) {
		return route.Choice{Index: v.Home, Reason: route.ReasonSession}
	}
	return p.fallback.Pick(v, r)
}
