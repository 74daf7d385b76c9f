package basic

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// sessionPolicy keeps a conversation at its endpoint while that can take the request, whatever its load, and places all
// others by another policy (session affinity of llm-d, inference payload processor, PR 178). The reason for staying is
// pick.ReasonSession; otherwise it is the other policy's.
type sessionPolicy struct{ fallback pick.Policy }

// NewSession makes session with a policy for conversations without an endpoint.
func NewSession(fallback pick.Policy) pick.Policy { return sessionPolicy{fallback} }

// Needs implements pick.Policy. A shortlist that suits the other policy suits this one: the home has a row in any case.
func (p sessionPolicy) Needs() pick.Needs {
	n := p.fallback.Needs()
	n.Name = "session"
	return n
}

// Hooks implements pick.Policy: the other policy's, which hears only of its own choices that they were placed.
func (p sessionPolicy) Hooks() pick.Hooks {
	h := p.fallback.Hooks()
	if placed := h.Placed; placed != nil {
		h.Placed = func(v *pick.View, r *fleet.Request, c pick.Choice) {
			if !stays(v) {
				placed(v, r, c)
			}
		}
	}
	return h
}

// Pick implements pick.Policy.
func (p sessionPolicy) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	if stays(v) {
		return pick.Choice{Index: v.Home, Reason: pick.ReasonSession}
	}
	return p.fallback.Pick(v, r)
}

// stays reports whether the conversation has an endpoint that can take the request.
func stays(v *pick.View) bool { return v.Home >= 0 && v.Home < len(v.Candidates) }
