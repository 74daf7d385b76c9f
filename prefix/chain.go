package prefix

import "slices"

// Chain appends the chain that ends with a block, from its first block on, to to; ok is false when nobody holds the block.
func (x *Index) Chain(last uint64, to []uint64) (chain []uint64, ok bool) {
	x.single()
	a := x.find(last)
	if last == 0 || a == 0 {
		return to, false
	}
	n, i := x.locate(a)
	nd := x.nodes.at(n)
	start := len(to)
	to = slices.Grow(to, int(nd.at+i)+1)[:start+int(nd.at+i)+1]
	for length := i + 1; n != 0; length = x.nodes.at(n).length {
		nd = x.nodes.at(n)
		at := start + int(nd.at)
		for h := range x.run(n, 0, length) {
			to[at] = h
			at++
		}
		n = nd.parent
	}
	return to, true
}

// Holds reports whether a slot holds a block.
func (x *Index) Holds(slot int, hash uint64) bool {
	x.single()
	a := x.find(hash)
	if hash == 0 || a == 0 || slot < 0 || slot >= len(x.slots) {
		return false
	}
	n, i := x.locate(a)
	id := x.member(n, uint16(slot))
	return id != 0 && x.members.at(id).length > i
}

// Depth is how many blocks the chain has that ends with a block; 0 when nobody holds it.
func (x *Index) Depth(hash uint64) int {
	x.single()
	a := x.find(hash)
	if hash == 0 || a == 0 {
		return 0
	}
	n, i := x.locate(a)
	return int(x.nodes.at(n).at+i) + 1
}
