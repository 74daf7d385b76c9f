package cache

import (
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/blocks"
)

// resident counts the blocks of an endpoint's outstanding requests, shared ones once.
type resident struct {
	leases  []uint32 // as they were placed
	touched int      // index of the one that was touched last, see touchInUse
	sorted  ranking
	blocks  int
	prompts int64   // tokens of these requests' prompts, shared ones counted for each
	perByte float64 // tokens per byte of the latest
}

// residentTokens is the tokens that outstanding requests occupy: prompts and answers to come, shared prefixes once.
// context counts them for each request. A request without known content counts in full.
func (e *endpoint) residentTokens(context int64) int64 {
	return max(0, context-e.outstanding.prompts) +
		int64(float64(e.outstanding.blocks*fleet.BlockBytes)*e.outstanding.perByte)
}

// addResident adds a lease's blocks. A block's name covers all before it, so the new blocks of a chain are those after
// the longest prefix that it shares with another.
func (t *Table) addResident(e *endpoint, n uint32, l *lease, perByte float64) {
	h := &e.outstanding
	h.blocks += blocks.Reach(len(l.chain)) - blocks.Reach(t.shared(e, l.chain))
	h.prompts += int64(l.promptTokens)
	h.perByte = perByte
	h.leases = append(h.leases, n)
	h.sorted.add(&t.leases, ranked{lease: n}, l.chain)
}

// removeResident removes a lease's blocks. first reports that none of the others was placed before it.
func (t *Table) removeResident(e *endpoint, n uint32, l *lease) (first bool) {
	h := &e.outstanding
	i := slices.Index(h.leases, n)
	if i < 0 {
		return false
	}
	h.leases = slices.Delete(h.leases, i, i+1)
	h.sorted.remove(&t.leases, ranked{lease: n}, l.chain)
	h.blocks -= blocks.Reach(len(l.chain)) - blocks.Reach(t.shared(e, l.chain))
	h.prompts -= int64(l.promptTokens)
	return i == 0
}

// shared is the longest prefix, in blocks, that a chain shares with an outstanding request of an endpoint.
func (t *Table) shared(e *endpoint, chain []uint64) int {
	return e.outstanding.sorted.common(&t.leases, chain, 0)
}

// touches is how many outstanding requests have their turn each time that one ends. With 8 as much is predicted to be
// cached as with all.
const touches = 8

// touchInUse marks the prompts of some outstanding requests as just used, the next ones each time that a request has
// ended. Engines do not evict what an answer is generated from, nor the prompt that they compute, so what ended
// requests leave has only the rest of the cache. Prompts that wait have no part: others may overtake them. Nor has a
// cache whose second tier keeps what is evicted: conversations then belong where they were, whatever is in use there.
// While no more is in use than may be free in a full cache, it stays far from eviction.
func (t *Table) touchInUse(e *endpoint) {
	h := &e.outstanding
	if h.blocks < e.capacity.bound/nearlyFull || !t.full(e.slot, nearlyFull) || e.keeps.more() ||
		e.facts.OnePrompt {
		return
	}
	computed := slices.IndexFunc(h.leases, func(n uint32) bool {
		l := t.leases.Get(int(n))
		return !l.done && !l.refused
	})
	for range min(touches, len(h.leases)) {
		if h.touched++; h.touched >= len(h.leases) {
			h.touched = 0
		}
		l := t.leases.Get(int(h.leases[h.touched]))
		if (l.done || h.touched == computed) && l.epoch == e.epoch {
			t.index.Insert(e.slot, l.chain)
			t.insertNear(e.slot, l.chain)
		}
	}
}
