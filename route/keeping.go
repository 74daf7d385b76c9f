package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// tellReserved tells a pool's policy of a decision, if it keeps books.
func (r *Router) tellReserved(req *fleet.Request, v *pick.View, l fleet.Lease, index int) {
	if k, ok := r.flight(l).policy.(pick.Keeping); ok {
		k.Reserved(l, &v.Candidates[index], v, req)
	}
}

// tellReleased tells it of the end.
func tellReleased(f *flight, ev *Finished) {
	if k, ok := f.policy.(pick.Keeping); ok {
		k.Released(ev.Lease, ev.Outcome == fleet.OK)
	}
}

// tellGone tells the policies of all pools that an endpoint is not there any more, if they bind conversations to it.
func (r *Router) tellGone(e *endpoint) {
	for _, p := range r.keptPools {
		for _, policy := range [...]pick.Policy{p.policy, p.prefill} {
			if f, ok := policy.(pick.Forgetting); ok {
				f.Forget(e.key)
			}
		}
	}
}
