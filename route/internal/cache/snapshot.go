package cache

import "github.com/warmpath/warmpath/fit"

// Learnt is what is known of one cache beside its content, as plain values.
type Learnt struct {
	Flow            int64
	Bound, Told     int
	Share           float64
	Missing, Losses float64
	Unit, Fits      int // see grain
}

// Chain is a chain of block names: the first Same of the chain before it, then Rest.
type Chain struct {
	Same int
	Rest []uint64
}

// Learnt is what is known of an endpoint's cache.
func (r Reader) Learnt(slot int) Learnt {
	e := r.t.endpoints.Get(slot)
	c := &e.capacity
	return Learnt{
		Flow: e.flow, Bound: c.bound, Told: c.statedBlocks, Share: c.share,
		Missing: float64(e.losses.missing), Losses: float64(e.losses.n), Unit: e.grain.unit, Fits: e.grain.fits,
	}
}

// Restore takes in what was known of the cache of an endpoint that has entered and has had no request.
func (t *Table) Restore(slot int, l *Learnt) {
	e := t.endpoints.Get(slot)
	e.flow = l.Flow
	e.capacity = capacity{bound: min(max(0, l.Bound), mostBlocks), statedBlocks: max(0, l.Told), share: l.Share}
	e.grain = grain{max(0, l.Unit), min(max(0, l.Fits), fit.Enough)}
	e.losses = losses{missing: fit.Sum(l.Missing), n: fit.Sum(l.Losses)}
	if e.capacity.bound > 0 {
		t.index.SetCapacity(slot, e.capacity.bound)
	}
}

// Rewind begins a walk through what an endpoint is estimated to hold.
func (t *Table) Rewind(slot int) { t.index.Rewind(slot) }

// Chains is the next chains of the walk, those used longest ago first, of so many names or some more. more is false at
// the end.
func (t *Table) Chains(slot, names int) (chains []Chain, more bool) {
	var last []uint64
	for names > 0 {
		chain, ok := t.index.Next(slot, nil)
		if !ok {
			return chains, false
		}
		same := 0
		for same < min(len(chain), len(last)) && chain[same] == last[same] {
			same++
		}
		chains = append(chains, Chain{same, chain[same:]})
		names -= len(chain)
		last = chain
	}
	return chains, true
}

// Believe adds chains that an endpoint was estimated to hold.
func (t *Table) Believe(slot int, chains []Chain) {
	e := t.endpoints.Get(slot)
	var chain []uint64
	for _, c := range chains {
		if c.Same < 0 || c.Same > len(chain) {
			return
		}
		chain = append(chain[:c.Same], c.Rest...)
		t.add(slot, e, chain)
	}
}
