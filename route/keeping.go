package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// tellReserved tells a pool's policy of a reservation, if it is Keeping.
func (r *Router) tellReserved(req *fleet.Request, v *pick.View, f *flight, index int) {
	if k, ok := f.policy.(pick.Keeping); ok {
		k.Reserved(f.decision.Lease, &v.Candidates[index], v, req)
	}
}

// tellReleased tells it of the reservation's end.
func tellReleased(f *flight, ev *Finished) {
	if k, ok := f.policy.(pick.Keeping); ok {
		k.Released(ev.Lease, ev.Outcome == fleet.OK)
	}
}

// tellGone tells the policies of all pools that an endpoint has left, if they are Forgetting.
func (r *Router) tellGone(e *endpoint) {
	for _, p := range r.keptPools {
		for _, policy := range [...]pick.Policy{p.policy, p.prefill} {
			if f, ok := policy.(pick.Forgetting); ok {
				f.Forget(e.key)
			}
		}
	}
}
