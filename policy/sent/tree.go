// Package sent remembers what was sent where: prompts (Tree), a count (Tally), a sum over the last seconds (Window) and the endpoint of
// a conversation (Bindings).
//
// These are a rule's own Tree, beside the router's belief. Each is bounded, and what an endpoint was sent is never found under the
// next endpoint in its slot.
package sent

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/slot"
)

// Tree is a rival's own tree of the prompts it sent where, by the blocks of their content. It is bounded for each endpoint;
// what was used longest ago goes first.
type Tree struct {
	index *prefix.Index
	found prefix.Matches
	known slot.Table[bool] // endpoints whose chains index holds
	among int              // endpoints that a common bound is shared among; 0 when each has its own
}

// Unbounded stands in for trees without a bound: 64 MiB of prompts.
const Unbounded = 1 << 26 / fleet.BlockBytes

// NewTree makes a tree that keeps so many blocks for each endpoint.
func NewTree(blocks int) Tree {
	return Tree{index: prefix.New(prefix.Config{Capacity: blocks, Chains: true})}
}

// Share bounds all endpoints together to so many blocks, evenly.
func (m *Tree) Share(cs []pick.Candidate, blocks int) {
	if m.among == len(cs) {
		return
	}
	m.among = len(cs)
	for i := range cs {
		m.index.SetCapacity(cs[i].Slot, blocks/len(cs))
	}
}

// Match finds how much of a chain each endpoint was sent. A slot that another endpoint has got is forgotten.
func (m *Tree) Match(cs []pick.Candidate, chain []uint64) {
	for i := range cs {
		c := &cs[i]
		if known := m.known.At(c.Slot, c.Key); !*known {
			m.index.Drop(c.Slot)
			*known = true
		}
	}
	m.index.Match(chain, &m.found)
}

// DeepestAnywhere is the most blocks of the chain matched last that any endpoint was sent, candidates or not.
func (m *Tree) DeepestAnywhere() int { return m.found.Deepest() }

// Size is how many blocks are kept of a candidate.
func (m *Tree) Size(c *pick.Candidate) int { return m.index.Len(c.Slot) }

// Bound has so many blocks of a candidate kept.
func (m *Tree) Bound(c *pick.Candidate, blocks int) {
	if m.index.Capacity(c.Slot) != blocks {
		m.index.SetCapacity(c.Slot, blocks)
	}
}

// Forget drops what a candidate was sent.
func (m *Tree) Forget(c *pick.Candidate) { m.index.Clear(c.Slot) }

// Enter enters a chain under the endpoint of a slot, if match still knows the slot as that endpoint's.
func (m *Tree) Enter(at int, key uint64, chain []uint64) {
	if m.known.Peek(at, key) != nil {
		m.index.Insert(at, chain)
	}
}

// Depth is how many blocks of the chain matched last a candidate was sent.
func (m *Tree) Depth(c *pick.Candidate) int { return m.found.Depth(c.Slot) }

// Deepest is the most blocks of the chain matched last that any of the candidates was sent.
func (m *Tree) Deepest(cs []pick.Candidate) int {
	most := 0
	for i := range cs {
		most = max(most, m.Depth(&cs[i]))
	}
	return most
}

// Sent enters a chain under a candidate.
func (m *Tree) Sent(c *pick.Candidate, chain []uint64) { m.index.Insert(c.Slot, chain) }
