package policy

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/slot"
)

// memory is a rival's own tree of the prompts it sent where, by the blocks of their content. It is bounded for each endpoint;
// what was used longest ago goes first.
type memory struct {
	index *prefix.Index
	found prefix.Matches
	known slot.Table[bool] // endpoints whose chains index holds
	among int              // endpoints that a common bound is shared among; 0 when each has its own
}

// unboundedBlocks stands in for trees without a bound: 64 MiB of prompts.
const unboundedBlocks = 1 << 26 / fleet.BlockBytes

// newMemory makes a tree that keeps so many blocks for each endpoint.
func newMemory(blocks int) memory {
	return memory{index: prefix.New(prefix.Config{Capacity: blocks, Chains: true})}
}

// share bounds all endpoints together to so many blocks, evenly.
func (m *memory) share(cs []pick.Candidate, blocks int) {
	if m.among == len(cs) {
		return
	}
	m.among = len(cs)
	for i := range cs {
		m.index.SetCapacity(cs[i].Slot, blocks/len(cs))
	}
}

// match finds how much of a chain each endpoint was sent. A slot that another endpoint has got is forgotten.
func (m *memory) match(cs []pick.Candidate, chain []uint64) {
	for i := range cs {
		c := &cs[i]
		if known := m.known.At(c.Slot, c.Key); !*known {
			m.index.Drop(c.Slot)
			*known = true
		}
	}
	m.index.Match(chain, &m.found)
}

// deepestAnywhere is the most blocks of the chain matched last that any endpoint was sent, candidates or not.
func (m *memory) deepestAnywhere() int { return m.found.Deepest() }

// size is how many blocks are kept of a candidate.
func (m *memory) size(c *pick.Candidate) int { return m.index.Len(c.Slot) }

// bound has so many blocks of a candidate kept.
func (m *memory) bound(c *pick.Candidate, blocks int) {
	if m.index.Capacity(c.Slot) != blocks {
		m.index.SetCapacity(c.Slot, blocks)
	}
}

// forget drops what a candidate was sent.
func (m *memory) forget(c *pick.Candidate) { m.index.Clear(c.Slot) }

// enter enters a chain under the endpoint of a slot, if match still knows the slot as that endpoint's.
func (m *memory) enter(at int, key uint64, chain []uint64) {
	if m.known.Peek(at, key) != nil {
		m.index.Insert(at, chain)
	}
}

// depth is how many blocks of the chain matched last a candidate was sent.
func (m *memory) depth(c *pick.Candidate) int { return m.found.Depth(c.Slot) }

// deepest is the most blocks of the chain matched last that any of the candidates was sent.
func (m *memory) deepest(cs []pick.Candidate) int {
	most := 0
	for i := range cs {
		most = max(most, m.depth(&cs[i]))
	}
	return most
}

// sent enters a chain under a candidate.
func (m *memory) sent(c *pick.Candidate, chain []uint64) { m.index.Insert(c.Slot, chain) }
