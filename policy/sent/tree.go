// Package sent records what was sent where: prompts (Tree), a count (Tally), a sum over recent seconds (Window) and the
// endpoint of a conversation (Bindings).
//
// This is the state of single rules, separate from the router's belief. Each kind is bounded, and records of an
// endpoint never apply to its successor in the slot.
package sent

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/slot"
)

// Tree is a policy's own tree of the prompts it sent where, by the blocks of their content. It is bounded per endpoint
// by an LRU.
type Tree struct {
	index *prefix.Index
	found prefix.Matches
	known slot.Table[bool] // endpoints with chains in index
	among int              // number of endpoints that share a common bound; 0 when each has its own
}

// Unbounded replaces an infinite bound: 64 MiB of prompts.
const Unbounded = 1 << 26 / fleet.BlockBytes

// NewTree returns a tree with this many blocks per endpoint.
func NewTree(blocks int) Tree {
	return Tree{index: prefix.New(prefix.Config{Capacity: blocks, Chains: true})}
}

// Share divides a common bound evenly among the endpoints.
func (m *Tree) Share(cs []pick.Candidate, blocks int) {
	if m.among == len(cs) {
		return
	}
	m.among = len(cs)
	for i := range cs {
		m.index.SetCapacity(cs[i].Slot, blocks/len(cs))
	}
}

// Match finds how many blocks of a chain each endpoint was sent. It changes only what Depth and Deepest return.
func (m *Tree) Match(cs []pick.Candidate, chain []uint64) {
	m.index.Match(chain, &m.found)
	for i := range cs {
		if c := &cs[i]; m.known.Peek(c.Slot, c.Key) == nil { // its slot had another endpoint
			m.found.Drop(c.Slot)
		}
	}
}

// Enter clears the slots that have new endpoints.
func (m *Tree) Enter(cs []pick.Candidate) {
	for i := range cs {
		c := &cs[i]
		if known := m.known.At(c.Slot, c.Key); !*known {
			m.index.Drop(c.Slot)
			*known = true
		}
	}
}

// DeepestAnywhere is the longest match of the last chain at any endpoint, candidate or not.
func (m *Tree) DeepestAnywhere() int { return m.found.Deepest() }

// Size is the number of blocks recorded for a candidate.
func (m *Tree) Size(c *pick.Candidate) int {
	if m.known.Peek(c.Slot, c.Key) == nil { // its slot had another endpoint
		return 0
	}
	return m.index.Len(c.Slot)
}

// Bound sets the number of blocks kept for a candidate.
func (m *Tree) Bound(c *pick.Candidate, blocks int) {
	if m.index.Capacity(c.Slot) != blocks {
		m.index.SetCapacity(c.Slot, blocks)
	}
}

// Forget drops a candidate's record.
func (m *Tree) Forget(c *pick.Candidate) { m.index.Clear(c.Slot) }

// Answered records a chain for the endpoint of a slot, if it still has the slot since the last Enter.
func (m *Tree) Answered(at int, key uint64, chain []uint64) {
	if m.known.Peek(at, key) != nil {
		m.index.Insert(at, chain)
	}
}

// Depth is the match of the last chain at a candidate, in blocks.
func (m *Tree) Depth(c *pick.Candidate) int { return m.found.Depth(c.Slot) }

// Deepest is the longest match of the last chain at the candidates.
func (m *Tree) Deepest(cs []pick.Candidate) int {
	most := 0
	for i := range cs {
		most = max(most, m.Depth(&cs[i]))
	}
	return most
}

// Sent records a chain for a candidate.
func (m *Tree) Sent(c *pick.Candidate, chain []uint64) { m.index.Insert(c.Slot, chain) }
