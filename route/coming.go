package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/blocks"
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
	n, until := ep.sent(), now.Add(time.Duration(ep.speed.hold*1e6))
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

// findPresent fills in how many blocks of the prompt each endpoint holds now, or computes before this one: those that a decode leg will
// bring are left out.
func (r *Router) findPresent(d *decision, v *table) {
	keys := d.text.keys
	for i := range v.Candidates {
		c := &v.Candidates[i]
		ep := r.bySlot[c.Slot]
		c.Present = c.Blocks
		if len(ep.coming) == 0 {
			continue
		}
		for _, k := range ep.pending {
			g := &r.flights[k]
			if n := g.sure; g.leg == fleet.LegDecode && n < c.Present && n < min(len(keys), len(g.chain)) && keys[n] == g.chain[n] {
				c.Present = n
			}
		}
	}
}

// presentTokens is how many tokens of the prompt that is.
func (d *decision) presentTokens(c *pick.Candidate) int {
	if c.Present >= c.Blocks {
		return c.CachedTokens
	}
	return min(c.CachedTokens, wholeBlocks(c, d.size.At(blocks.Bytes(c.Present))))
}

// onlyPresent leaves out of what the rows have cached what decode legs are still to bring there.
func (r *Router) onlyPresent(d *decision, v *table) {
	r.findPresent(d, v)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.CachedTokens = d.presentTokens(c)
	}
	v.sure = true
}
