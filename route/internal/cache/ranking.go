package cache

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/slot"
)

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
