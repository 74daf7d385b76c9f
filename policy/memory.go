package policy

import (
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

// knows reports whether a slot is still that of the endpoint with the key, as far as match was told.
func (m *memory) knows(at int, key uint64) bool { return m.known.Peek(at, key) != nil }

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
