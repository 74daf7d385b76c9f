package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/session"
)

// newID notes the id that a client sends with a turn and reports whether it is new: is_first_turn as TensorRT-LLM PR 14744 has it. It
// is false without an id, and for one that the router minted and a client takes up. Further attempts and legs of a request
// answer as its first one did.
func (r *Router) newID(p *pool, req *fleet.Request, t *talk) bool {
	if req.Class != fleet.Turn || req.Session == "" {
		return false
	}
	again := len(req.Tried) > 0 || len(req.TriedPrefill) > 0 || req.Leg != fleet.LegWhole
	first := r.seen.First(session.KeyOf(req.Tenant, p.name, req.Session), again)
	return first && !t.newborn
}
