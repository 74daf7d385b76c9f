package prefix

import "iter"

// repeat is a block that an engine has stored more than once: two requests may compute the same block at the same time,
// and the engine then announces it twice and removes it twice.
type repeat struct {
	hash uint64
	slot uint16
}

// Store says that the engine of a slot announced blocks: hashes one after another, the first after the block parent, or at
// the beginning of a prompt when parent is 0. A block stored again counts once more, and is held until it was removed as
// often. What was only believed, by Insert, was not stored until Store names it or something after it. It returns how many
// of the hashes were taken, as Insert takes a chain: none when the slot is not known to hold the parent (the caller has lost
// events, and may ask the engine for all of them).
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

// Remove says that the engine of a slot announced that it holds blocks no more, in any order. What follows a removed
// block on the slot goes with it, since without it nothing after it can be used. It returns how many blocks the slot
// holds less.
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

// seek finds the node and the place of a block. Engines remove a prompt from its end, so what is asked for is often the end
// of the run that was shortened last, which spares the search.
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

// foresee warms what events of one hash each will ask for next: the rest of the chunk.
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

// repeated counts blocks from to to of a member's run as stored once more.
func (x *Index) repeated(m *member, from, to uint32) {
	for h := range x.run(m.node, from, to) {
		x.repeats[repeat{h, m.slot}]++
	}
}

// unrepeat forgets the repeats of the blocks that a member is about to lose.
func (x *Index) unrepeat(m *member, length uint32) {
	for h := range x.run(m.node, length, m.stored) {
		delete(x.repeats, repeat{h, m.slot})
	}
}

// run goes through the hashes of a node from block from to before block to.
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
