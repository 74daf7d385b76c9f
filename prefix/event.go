package prefix

import "iter"

// repeat is a block that an engine has stored more than once: two requests may compute the same block concurrently, and
// the engine then reports it stored twice and removed twice.
type repeat struct {
	hash uint64
	slot uint16
}

// Store applies a stored event of the slot's engine: hashes in order, the first after the block parent, or at the
// beginning of a prompt if parent is 0. A block is held until it was removed as often as it was stored. A block from
// Insert is only believed; it counts as stored once Store names it or a block after it. Store returns how many hashes
// it accepted, as Insert does: none if the slot does not hold the parent, which means that events were lost.
func (x *Index) Store(slot int, parent uint64, hashes []uint64) int {
	x.single()
	s := x.slot(slot)
	var n, k uint32
	if parent != 0 {
		a := x.find(parent)
		if a == 0 {
			return 0
		}
		n, k = x.locate(a)
		if id := x.member(n, uint16(slot)); id == 0 || x.members.at(id).length <= k {
			return 0
		}
		k++
	}
	n, k, i := x.extend(uint16(slot), n, k, hashes)
	x.claim(uint16(slot), n, k, uint32(i))
	x.evict(s)
	return i
}

// Remove applies a removed event of the slot's engine, hashes in any order. Blocks that follow a removed block go too,
// since a prefix without it is useless. It returns the number of blocks that the slot lost.
func (x *Index) Remove(slot int, hashes []uint64) int {
	x.single()
	if slot < 0 || slot >= len(x.slots) {
		return 0
	}
	s := &x.slots[slot]
	before := s.blocks
	for i, h := range hashes {
		if i%warmLen == 0 && len(hashes) > 1 {
			x.table.warm(hashes[i:min(i+warmLen, len(hashes))])
		}
		n, k, known := x.seek(h)
		if !known || x.again(repeat{h, uint16(slot)}) {
			continue
		}
		if len(hashes) == 1 {
			x.foresee(n, k)
		}
		x.forget(uint16(slot), n, k)
		x.last = n
	}
	return before - s.blocks
}

// seek finds the node and the place of a block. Engines remove a prompt from its end, so the block is often the end of
// the run shortened last, which saves the search.
func (x *Index) seek(hash uint64) (n, i uint32, known bool) {
	if nd := x.nodes.at(x.last); nd.length > 0 && x.chunks.at(nd.last).hash[(nd.start+nd.length-1)%chunkLen] == hash {
		return x.last, nd.length - 1, true
	}
	a := x.find(hash)
	if a == 0 {
		return 0, 0, false
	}
	n, i = x.locate(a)
	return n, i, true
}

// foresee prefetches what events of one hash each will need next: the rest of the chunk.
func (x *Index) foresee(n, k uint32) {
	nd := x.nodes.at(n)
	if off := (nd.start + k) % chunkLen; k+1 == nd.length && (off == chunkLen-1 || n != x.last) {
		x.table.warm(x.chunks.at(nd.last).hash[:off])
	}
}

// again takes one from the repeats of a block, if it has any.
func (x *Index) again(r repeat) bool {
	if len(x.repeats) == 0 {
		return false
	}
	count, known := x.repeats[r]
	if count > 1 {
		x.repeats[r] = count - 1
	} else {
		delete(x.repeats, r)
	}
	return known
}

// repeated counts blocks [from, to) of a member's run as stored once more.
func (x *Index) repeated(m *member, from, to uint32) {
	for h := range x.run(m.node, from, to) {
		x.repeats[repeat{h, m.slot}]++
	}
}

// unrepeat forgets the repeats of blocks that a member is about to lose.
func (x *Index) unrepeat(m *member, length uint32) {
	for h := range x.run(m.node, length, m.stored) {
		delete(x.repeats, repeat{h, m.slot})
	}
}

// run yields the hashes of blocks [from, to) of a node.
func (x *Index) run(n, from, to uint32) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if from >= to {
			return
		}
		id, off := x.chunkOf(x.nodes.at(n), from)
		for i := from; i < to; i++ {
			if off == chunkLen {
				id, off = x.chunks.at(id).next, 0
			}
			if !yield(x.chunks.at(id).hash[off]) {
				return
			}
			off++
		}
	}
}
