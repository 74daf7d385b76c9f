package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/pick"
)

// A decode leg is on its decoder's books from the decision on, but what it brings is there only when its prompt has been computed
// elsewhere, which may be long after. Until then it takes no place there, and a request that is served there as a whole cannot count
// on its blocks, as it could on those of a whole one, which the engine computes before.

// came takes a decode leg off the list of those whose KV cache is still to come, and off its endpoint's link.
func (r *Router) came(now time.Time, f *flight) {
	r.passes(now, f.ep)
	if i := slices.Index(f.ep.coming, f.index); i >= 0 {
		f.ep.coming = slices.Delete(f.ep.coming, i, i+1)
	}
}

// taken is how many requests stand between a new one and a place at the endpoint: those that have one or wait for one, and those that
// come while the new one would be answered. What comes later finds it gone.
func (r *Router) taken(now time.Time, ep *endpoint) int {
	if len(ep.coming) == 0 { // of every endpoint where nothing is split
		return ep.sent()
	}
	n, until := ep.sent(), now.Add(time.Duration(float64(ep.speed.hold)*1e6))
	for _, k := range ep.coming {
		if r.flights[k].due.After(until) {
			n--
		}
	}
	return n
}

// legWaitMs is how long a decode leg would wait now, in ms. By the time it comes, those that are coming have a place, or are in front.
func (r *Router) legWaitMs(now time.Time, c *pick.Candidate) float64 {
	ep := r.bySlot[c.Slot]
	return r.wait(ep, now, c.MsPerToken, c.Load.Waiting, ep.sent())
}
