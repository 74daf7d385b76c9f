package cache

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/slot"
)

// coming are an endpoint's requests whose blocks are not computed yet.
type coming struct {
	leases []uint32 // as they were placed
	groups []group  // their prompts; one without prompts is free
	blocks int      // what their prompts add to what was there
}

// group are the prompts that come to one generation of a cache in one way.
type group struct {
	epoch    uint32
	transfer bool // they are computed elsewhere
	prompts  ranking
}

func (c *coming) add(leases *slot.Table[lease], n uint32) {
	l := leases.Get(int(n))
	c.leases = append(c.leases, n)
	c.blocks += l.adds()
	for i, chain := range l.prompts() {
		c.of(l).prompts.add(leases, ranked{n, int32(i)}, chain)
	}
}

func (c *coming) remove(leases *slot.Table[lease], n uint32) {
	i := slices.Index(c.leases, n)
	if i < 0 {
		return
	}
	l := leases.Get(int(n))
	c.leases = slices.Delete(c.leases, i, i+1)
	c.blocks -= l.adds()
	for i, chain := range l.prompts() {
		c.of(l).prompts.remove(leases, ranked{n, int32(i)}, chain)
	}
}

// of is the row for a lease's prompts.
func (c *coming) of(l *lease) *group {
	free, transfer := -1, l.leg == fleet.LegDecode
	for i := range c.groups {
		a := &c.groups[i]
		if a.epoch == l.epoch && a.transfer == transfer {
			return a
		}
		if len(a.prompts) == 0 {
			free = i
		}
	}
	if free < 0 {
		free = len(c.groups)
		c.groups = append(c.groups, group{})
	}
	a := &c.groups[free]
	a.epoch, a.transfer = l.epoch, transfer
	return a
}

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

// ranking has prompts of leases by their chains, so that those that begin alike lie side by side. A search takes the
// logarithm of their number: thousands of requests may wait at one endpoint and end at once.
type ranking []ranked

// ranked is one of a lease's prompts. Its chain must not change meanwhile.
type ranked struct {
	lease  uint32
	prompt int32
}

func (p ranked) chain(leases *slot.Table[lease]) []uint64 {
	return leases.Get(int(p.lease)).prompt(int(p.prompt))
}

// seek is where a prompt with this chain is, or would be.
func (r ranking) seek(leases *slot.Table[lease], p ranked, chain []uint64) int {
	return sort.Search(len(r), func(i int) bool {
		q := r[i]
		if c := order(q.chain(leases), chain); c != 0 {
			return c > 0
		}
		return q.lease > p.lease || q.lease == p.lease && q.prompt >= p.prompt
	})
}

func (r *ranking) add(leases *slot.Table[lease], p ranked, chain []uint64) {
	*r = slices.Insert(*r, r.seek(leases, p, chain), p)
}

func (r *ranking) remove(leases *slot.Table[lease], p ranked, chain []uint64) {
	i := r.seek(leases, p, chain)
	if i == len(*r) || (*r)[i] != p { // the names that another router sends need not cover all before them
		i = slices.Index(*r, p)
	}
	if i >= 0 {
		*r = slices.Delete(*r, i, i+1)
	}
}

// common is the longest prefix, in blocks, that a chain shares with one of the prompts, or n where that is larger. It
// is one with a neighbour in their order.
func (r ranking) common(leases *slot.Table[lease], chain []uint64, n int) int {
	at := r.seek(leases, ranked{}, chain)
	for _, p := range r[max(0, at-1):min(at+1, len(r))] {
		n = commonBeyond(chain, p.chain(leases), n)
	}
	return n
}

// of are the prompts whose chains begin with these blocks.
func (r ranking) of(leases *slot.Table[lease], begin []uint64) ranking {
	r = r[r.seek(leases, ranked{}, begin):]
	return r[:sort.Search(len(r), func(i int) bool {
		return blocks.Common(begin, r[i].chain(leases)) < len(begin)
	})]
}

// beyond goes through the prompts that share more than n blocks with a chain.
func (r ranking) beyond(leases *slot.Table[lease], chain []uint64, n int) iter.Seq[ranked] {
	shares := func(i int) bool { return i >= 0 && i < len(r) && commonBeyond(chain, r[i].chain(leases), n) > n }
	return func(yield func(ranked) bool) {
		at := r.seek(leases, ranked{}, chain)
		for i := at; shares(i) && yield(r[i]); i++ {
		}
		for i := at - 1; shares(i) && yield(r[i]); i-- {
		}
	}
}

// order compares two chains by the first name that differs; a beginning comes before what it is the beginning of.
func order(a, b []uint64) int {
	n := blocks.Common(a, b)
	if n == min(len(a), len(b)) {
		return cmp.Compare(len(a), len(b))
	}
	return cmp.Compare(a[n], b[n])
}

// commonBeyond is the common prefix of two chains in blocks, or n where that is larger.
func commonBeyond(a, b []uint64, n int) int {
	if n < min(len(a), len(b)) && a[n] == b[n] {
		return blocks.Common(a, b)
	}
	return n
}
