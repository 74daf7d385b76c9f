package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/route/size"
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
func (r *Router) taken(ep *endpoint) int {
	if len(ep.coming) == 0 { // of every endpoint where nothing is split
		return ep.sent()
	}
	n, until := ep.sent(), r.view.Now.Add(time.Duration(ep.speed.hold*1e6))
	for _, k := range ep.coming {
		if r.flights[k].due.After(until) {
			n--
		}
	}
	return n
}

// legWaitMs is how long a decode leg would wait now, in ms. By the time it comes, those that are coming have a place, or are in front.
func (r *Router) legWaitMs(i int) float64 {
	c, ep := &r.view.Candidates[i], r.members[i].ep
	return r.wait(ep, r.view.Now, c.MsPerToken, c.Load.Waiting, ep.sent())
}

// findPresent fills r.present with how many blocks of the prompt each candidate holds now, or computes before this one: those that a
// decode leg will bring are left out.
func (r *Router) findPresent() {
	r.present = r.present[:0]
	for i, depth := range r.belief.depths {
		if i >= len(r.members) {
			break
		}
		ep := r.members[i].ep
		if len(ep.coming) > 0 {
			for _, k := range ep.pending {
				g := &r.flights[k]
				if n := g.sure; g.leg == fleet.LegDecode && n < depth && n < min(len(r.belief.keys), len(g.chain)) && r.belief.keys[n] == g.chain[n] {
					depth = n
				}
			}
		}
		r.present = append(r.present, depth)
	}
}

// presentTokens is how many tokens of the prompt that is.
func (r *Router) presentTokens(i int, m *size.Prompt) int {
	c := r.view.Candidates[i].CachedTokens
	if i >= len(r.present) || r.present[i] >= r.belief.depths[i] {
		return c
	}
	return min(c, r.wholeBlocks(i, m.At(blocks.Bytes(r.present[i]))))
}

// onlyPresent leaves out of what candidates have cached what decode legs are still to bring there.
func (r *Router) onlyPresent(m *size.Prompt) {
	r.findPresent()
	for i := range r.view.Candidates {
		r.view.Candidates[i].CachedTokens = r.presentTokens(i, m)
	}
	r.counts = true
}
