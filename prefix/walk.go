package prefix

import "iter"

// along yields a slot's members on a chain, from its beginning, and how many blocks of the chain each holds.
func (x *Index) along(slot int, chain []uint64) iter.Seq2[uint32, uint32] {
	return func(yield func(id, same uint32) bool) {
		n := uint32(0)
		for len(chain) > 0 && slot >= 0 && slot < len(x.slots) {
			if n = x.childBy(n, chain[0]); n == 0 {
				return
			}
			id := x.member(n, uint16(slot))
			if id == 0 {
				return
			}
			same := min(x.common(n, 0, chain), x.members.at(id).length)
			if !yield(id, same) || same < x.nodes.at(n).length {
				return
			}
			chain = chain[same:]
		}
	}
}

// descend follows hashes from the first k blocks of a node on, as far as the tree matches. It returns the node reached,
// the place in its run, and the number of hashes followed.
func (x *Index) descend(n, k uint32, hashes []uint64) (uint32, uint32, int) {
	i := 0
	for {
		if length := x.nodes.at(n).length; k < length {
			same := x.common(n, k, hashes[i:])
			k += same
			i += int(same)
			if k < length {
				return n, k, i
			}
		}
		if i == len(hashes) {
			return n, k, i
		}
		child := x.childBy(n, hashes[i])
		if child == 0 {
			return n, k, i
		}
		n, k = child, 0
	}
}

// childBy is the child of a node that begins with a hash, or 0.
func (x *Index) childBy(n uint32, hash uint64) uint32 {
	a := x.find(hash)
	if a == 0 {
		return 0
	}
	child := x.chunks.at(a >> chunkBits).owner
	nd := x.nodes.at(child)
	if nd.parent != n || a != nd.first<<chunkBits|nd.start {
		return 0 // a contradiction: this hash has another parent
	}
	return child
}

// common counts how many hashes equal a run from its block k on.
func (x *Index) common(n, k uint32, hashes []uint64) uint32 {
	nd := x.nodes.at(n)
	end := min(int(nd.length-k), len(hashes))
	id, off := nd.first, nd.start
	if k > 0 {
		id, off = x.chunkOf(nd, k)
	}
	i := 0
	for i < end {
		c := x.chunks.at(id)
		if off == 0 && end-i >= chunkLen && [chunkLen]uint64(hashes[i:]) == c.hash {
			i += chunkLen
			id = c.next
			continue
		}
		for ; off < chunkLen && i < end; off++ {
			if hashes[i] != c.hash[off] {
				return uint32(i)
			}
			i++
		}
		id, off = c.next, 0
	}
	return uint32(end)
}

// extend follows hashes from the first k blocks of a node on and adds the new ones. It returns the node reached, the
// place in its run, and the number of accepted hashes: all up to the first contradiction. If the slot holds more of the
// run than that, the run is split there, since the rest was used longer ago.
func (x *Index) extend(slot uint16, n, k uint32, hashes []uint64) (uint32, uint32, int) {
	n, k, i := x.descend(n, k, hashes)
	if rest := hashes[i:]; len(rest) > 0 && rest[0] != 0 && x.find(rest[0]) == 0 {
		if k < x.nodes.at(n).length {
			n = x.split(n, k)
		}
		if n == 0 || x.nodes.at(n).child != 0 {
			n, k = x.newNode(n), 0
		}
		added := x.push(n, rest)
		return n, k + added, i + int(added)
	}
	if k < x.nodes.at(n).length {
		if id := x.member(n, slot); id != 0 && x.members.at(id).length > k {
			n = x.split(n, k)
		}
	}
	return n, k, i
}
