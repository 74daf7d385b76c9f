package cache

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/learnt"
)

// Export is what is known of an endpoint's cache.
func (r Reader) Export(slot int) learnt.Cache {
	e := r.t.endpoints.Get(slot)
	c := &e.capacity
	return learnt.Cache{
		Flow: e.flow, Bound: c.bound, Told: c.statedBlocks, Share: c.share,
		Missing: float64(e.overprediction.missing), Losses: float64(e.overprediction.n),
		Unit: e.grain.unit, Fits: e.grain.fits,
	}
}

// Restore takes in what was known of the cache of an endpoint that has entered and has had no request.
func (t *Table) Restore(slot int, l *learnt.Cache) {
	e := t.endpoints.Get(slot)
	e.flow = l.Flow
	e.capacity = capacity{bound: min(max(0, l.Bound), mostBlocks), statedBlocks: max(0, l.Told), share: l.Share}
	e.grain = grain{max(0, l.Unit), min(max(0, l.Fits), fit.Enough)}
	e.overprediction = overprediction{missing: fit.Sum(l.Missing), n: fit.Sum(l.Losses)}
	if e.capacity.bound > 0 {
		t.index.SetCapacity(slot, e.capacity.bound)
	}
}

// Rewind begins a walk through what an endpoint is estimated to hold.
func (t *Table) Rewind(slot int) { t.index.Rewind(slot) }

// Chains is the next chains of the walk, those used longest ago first, until they have that many names. more is false
// at the end.
func (t *Table) Chains(slot, names int) (chains []learnt.Chain, more bool) {
	var last []uint64
	for names > 0 {
		chain, ok := t.index.Next(slot, nil)
		if !ok {
			return chains, false
		}
		same := blocks.Common(chain, last)
		chains = append(chains, learnt.Chain{Same: same, Rest: chain[same:]})
		names -= len(chain)
		last = chain
	}
	return chains, true
}

// Believe adds chains that an endpoint was estimated to hold.
func (t *Table) Believe(slot int, chains []learnt.Chain) {
	e := t.endpoints.Get(slot)
	var chain []uint64
	for _, c := range chains {
		if c.Same < 0 || c.Same > len(chain) {
			return
		}
		chain = append(chain[:c.Same], c.Rest...)
		t.add(e, chain)
	}
}
