package basic

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/reasons"
)

// rendezvous places a conversation at the endpoint with the highest score, a hash of both (D. Thaler and C.
// Ravishankar, 1998). Every replica computes the same place independently, and an endpoint that joins or leaves moves
// only its own conversations. Load is ignored.
type rendezvous struct{ pick.Plain }

// NewRendezvous makes rendezvous.
func NewRendezvous() pick.Policy { return rendezvous{pick.Plain{Name: "rendezvous"}} }

// Pick implements pick.Policy.
func (rendezvous) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	r := byhash.OrderFor(v)
	top, best := 0, r.Of(&v.Candidates[0])
	for i := 1; i < len(v.Candidates); i++ {
		if p := r.Of(&v.Candidates[i]); p.Before(best) {
			top, best = i, p
		}
	}
	return pick.Choice{Index: top, Reason: reasons.Rendezvous}
}
