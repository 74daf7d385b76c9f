package cache

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/blocks"
)

// resident counts the blocks of an endpoint's outstanding requests, shared ones once.
type resident struct {
	leases  []uint32 // as they were placed
	sorted  []uint32 // by their chains, so that those that begin alike lie side by side
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
	h.sorted = slices.Insert(h.sorted, t.rank(e, l.chain), n)
}

// removeResident removes a lease's blocks. first reports that none of the others was placed before it.
func (t *Table) removeResident(e *endpoint, n uint32, l *lease) (first bool) {
	h := &e.outstanding
	i := slices.Index(h.leases, n)
	if i < 0 {
		return false
	}
	h.leases = slices.Delete(h.leases, i, i+1)
	at := slices.Index(h.sorted, n)
	h.sorted = slices.Delete(h.sorted, at, at+1)
	h.blocks -= blocks.Reach(len(l.chain)) - blocks.Reach(t.shared(e, l.chain))
	h.prompts -= int64(l.promptTokens)
	return i == 0
}

// shared is the longest prefix, in blocks, that a chain shares with an outstanding request of an endpoint. It is one
// with a neighbour in their order.
func (t *Table) shared(e *endpoint, chain []uint64) (most int) {
	sorted, at := e.outstanding.sorted, t.rank(e, chain)
	for _, n := range sorted[max(0, at-1):min(at+1, len(sorted))] {
		most = max(most, blocks.Common(chain, t.leases.Get(int(n)).chain))
	}
	return most
}

// rank is how many outstanding requests of an endpoint have chains that come before this one.
func (t *Table) rank(e *endpoint, chain []uint64) int {
	at, _ := slices.BinarySearchFunc(e.outstanding.sorted, chain, func(n uint32, chain []uint64) int {
		return order(t.leases.Get(int(n)).chain, chain)
	})
	return at
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
