package cache

import (
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/blocks"
)

// held is the blocks of an endpoint's outstanding requests, each counted once however many requests share it.
type held struct {
	leases  []uint32
	blocks  int
	prompts int64   // tokens of these requests' prompts, with what they share counted for each
	perByte float64 // tokens a byte of the latest of them
}

// resident is how many tokens outstanding requests keep in the endpoint's memory: prompts and answers to come, what prompts have in
// common once. context is the same with that counted for each. Of a request whose content is not known all counts.
func (e *endpoint) resident(context int64) int64 {
	return max(0, context-e.held.prompts) + int64(float64(e.held.blocks*fleet.BlockBytes)*e.held.perByte)
}

// hold counts a lease's blocks in. Names of blocks cover all before them, so that what is new of a chain is what follows the
// longest beginning that it has in common with another.
func (t *Table) hold(e *endpoint, n uint32, l *lease, perByte float64) {
	h := &e.held
	h.blocks += blocks.Reach(len(l.chain)) - blocks.Reach(t.shared(e, l.chain))
	h.prompts += int64(l.promptTokens)
	h.perByte = perByte
	h.leases = append(h.leases, n)
}

// letGo counts them out.
func (t *Table) letGo(e *endpoint, n uint32, l *lease) {
	h := &e.held
	i := slices.Index(h.leases, n)
	if i < 0 {
		return
	}
	h.leases = slices.Delete(h.leases, i, i+1)
	h.blocks -= blocks.Reach(len(l.chain)) - blocks.Reach(t.shared(e, l.chain))
	h.prompts -= int64(l.promptTokens)
}

// shared is how many blocks of a chain, from the first on, an endpoint's outstanding requests have.
func (t *Table) shared(e *endpoint, chain []uint64) int {
	most := 0
	for _, n := range e.held.leases {
		most = commonBeyond(chain, t.leases.Get(int(n)).chain, most)
	}
	return most
}

// commonBeyond is how many blocks two chains have in common where they are more than n, else n.
func commonBeyond(a, b []uint64, n int) int {
	if n < min(len(a), len(b)) && a[n] == b[n] {
		return blocks.Common(a, b)
	}
	return n
}
