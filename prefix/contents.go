package prefix

import "slices"

// A walk visits the content of a slot as chains, least recently used first, a few per call, while the Index changes in
// between. Inserted into another Index in this order, they give the same content and order of use. Each slot has one
// walk at a time.
type walk struct {
	visited uint32 // member visited last; 0 before the first
	// with is the last block of the parent of the visited chain, 0 if it has none: a chain that ends there was
	// included.
	with uint64
}

// Rewind begins the walk of a slot.
func (x *Index) Rewind(slot int) {
	x.slot(slot).walk = &walk{}
}

// Next appends the next chain of a slot's walk to to; ok is false at the end, which frees the walk.
func (x *Index) Next(slot int, to []uint64) (chain []uint64, ok bool) {
	if slot < 0 || slot >= len(x.slots) || x.slots[slot].walk == nil {
		return to, false
	}
	s := &x.slots[slot]
	for {
		id := s.oldest
		if s.walk.visited != 0 {
			id = x.members.at(s.walk.visited).newer
		}
		if id == 0 {
			s.walk = nil
			return to, false
		}
		s.walk.visited = id
		m := x.members.at(id)
		included := x.block(m.node, m.length-1) == s.walk.with
		s.walk.with = 0
		if parent := x.nodes.at(m.node).parent; parent != 0 {
			s.walk.with = x.block(parent, x.nodes.at(parent).length-1)
		}
		if !included {
			return x.path(m.node, m.length, to), true
		}
	}
}

// block is the hash at a place of a node's run.
func (x *Index) block(n, at uint32) (hash uint64) {
	for h := range x.run(n, at, at+1) {
		hash = h
	}
	return hash
}

// path appends the chain that ends after the first length blocks of a node.
func (x *Index) path(n, length uint32, to []uint64) []uint64 {
	start, end := len(to), len(to)+int(x.nodes.at(n).at+length)
	to = slices.Grow(to, end-start)[:end]
	for n != 0 {
		nd := x.nodes.at(n)
		at := start + int(nd.at)
		for h := range x.run(n, 0, length) {
			to[at] = h
			at++
		}
		n = nd.parent
		length = x.nodes.at(n).length
	}
	return to
}
