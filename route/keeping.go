package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// tellReserved tells a pool's policy of a decision, if it keeps books.
func (r *Router) tellReserved(req *fleet.Request, v *table, l fleet.Lease, index int) {
	if k, ok := r.flight(l).policy.(pick.Keeping); ok {
		k.Reserved(l, &v.Candidates[index], &v.View, req)
	}
}

// tellReleased tells it of the end.
func tellReleased(f *flight, ev *Finished) {
	if k, ok := f.policy.(pick.Keeping); ok {
		k.Released(ev.Lease, ev.Outcome == fleet.OK)
	}
}
