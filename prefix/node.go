package prefix

// chunkLen is the number of hashes in a chunk: with its four words it then takes two cache lines.
const chunkLen = 14

// chunkBits is the number of bits of an address for the place within the chunk.
const chunkBits = 4

// chunk is a piece of a run.
type chunk struct {
	hash       [chunkLen]uint64
	owner      uint32 // node
	ordinal    uint32 // place in the run, counted from the node's ordinal
	prev, next uint32
}

// node is a run of blocks and its place in the tree. A run is as long as the longest beginning that a slot holds, and
// children follow its end, so a slot that holds a child holds the whole run.
type node struct {
	parent, child uint32
	prev, next    uint32 // siblings
	first, last   uint32 // chunks
	ordinal       uint32 // of the first chunk
	start         uint32 // place of the first block in the first chunk
	length        uint32 // blocks
	at            uint32 // blocks before the run
	members       uint32 // head of the list
	full          uint32 // members that hold the whole run; never 0 between operations
}

func (c *chunk) link() *uint32 { return &c.next }
func (n *node) link() *uint32  { return &n.next }

func (x *Index) hashAt(address uint32) uint64 {
	return x.chunks.at(address >> chunkBits).hash[address&(1<<chunkBits-1)]
}

// locate returns the node of an address, and the place of the block in its run.
func (x *Index) locate(address uint32) (n, i uint32) {
	c := x.chunks.at(address >> chunkBits)
	nd := x.nodes.at(c.owner)
	return c.owner, (c.ordinal-nd.ordinal)*chunkLen + address&(1<<chunkBits-1) - nd.start
}

// chunkOf returns the chunk of the block at place i of a run, and its place in the chunk.
func (x *Index) chunkOf(nd *node, i uint32) (c, off uint32) {
	at, off := (nd.start+i)/chunkLen, (nd.start+i)%chunkLen
	chunks := (nd.start+nd.length-1)/chunkLen + 1
	if at < chunks/2 {
		for c = nd.first; at > 0; at-- {
			c = x.chunks.at(c).next
		}
		return c, off
	}
	for c = nd.last; at < chunks-1; at++ {
		c = x.chunks.at(c).prev
	}
	return c, off
}

// newNode creates an empty node under a parent.
func (x *Index) newNode(parent uint32) uint32 {
	n := x.nodes.take()
	p := x.nodes.at(parent)
	*x.nodes.at(n) = node{at: p.at + p.length}
	x.adopt(parent, n)
	return n
}

// adopt links a node under a parent.
func (x *Index) adopt(parent, n uint32) {
	p, nd := x.nodes.at(parent), x.nodes.at(n)
	nd.parent, nd.prev, nd.next = parent, 0, p.child
	if p.child != 0 {
		x.nodes.at(p.child).prev = n
	}
	p.child = n
}

// leave unlinks a node from its parent.
func (x *Index) leave(n uint32) {
	nd := x.nodes.at(n)
	if nd.prev != 0 {
		x.nodes.at(nd.prev).next = nd.next
	} else {
		x.nodes.at(nd.parent).child = nd.next
	}
	if nd.next != 0 {
		x.nodes.at(nd.next).prev = nd.prev
	}
}

// push appends blocks to a run without children, up to the first that exists elsewhere. It returns how many; the caller
// must give them a member.
func (x *Index) push(n uint32, hashes []uint64) uint32 {
	nd := x.nodes.at(n)
	off := uint32(chunkLen)
	if nd.length > 0 {
		off = (nd.start+nd.length-1)%chunkLen + 1
	}
	before := nd.length
	c := x.chunks.at(nd.last)
	for i, h := range hashes {
		if i%warmLen == 0 && !x.chains {
			x.table.warm(hashes[i:min(i+warmLen, len(hashes))])
		}
		if off == chunkLen {
			id := x.chunks.take()
			c = x.hang(n, id)
			off = 0
		}
		if h == 0 || x.listed(nd.length) && !x.add(h, nd.last<<chunkBits|off) {
			if off == 0 {
				x.chop(n)
			}
			break
		}
		c.hash[off] = h
		off++
		nd.length++
	}
	if nd.length > before {
		nd.full = 0
	}
	return nd.length - before
}

// listed reports whether the block at place i of a run is in the table.
func (x *Index) listed(i uint32) bool { return !x.chains || i == 0 }

// hang links a chunk to the end of a run.
func (x *Index) hang(n, id uint32) *chunk {
	nd, c := x.nodes.at(n), x.chunks.at(id)
	c.owner, c.prev, c.next, c.ordinal = n, nd.last, 0, 0
	if nd.last == 0 {
		nd.first, nd.ordinal = id, 0
	} else {
		l := x.chunks.at(nd.last)
		l.next, c.ordinal = id, l.ordinal+1
	}
	nd.last = id
	return c
}

// chop frees the last chunk of a run.
func (x *Index) chop(n uint32) {
	nd := x.nodes.at(n)
	id := nd.last
	nd.last = x.chunks.at(id).prev
	if nd.last == 0 {
		nd.first = 0
	} else {
		x.chunks.at(nd.last).next = 0
	}
	x.chunks.give(id)
}

// cut shortens a run to a length; at 0 the node goes. No slot holds the cut part, so it has no children.
func (x *Index) cut(n, length uint32) {
	nd := x.nodes.at(n)
	if x.chains && length == 0 && nd.length > 0 {
		first := nd.first<<chunkBits | nd.start
		x.table.remove(x.hashAt(first), first)
	}
	for nd.length > length {
		off := (nd.start + nd.length - 1) % chunkLen
		c := x.chunks.at(nd.last)
		// Down to the first block to be removed from this chunk.
		low := off + 1 - min(off+1, nd.length-length)
		if !x.chains {
			x.table.warm(c.hash[low:off])
			for o := off + 1; o > low; o-- {
				x.table.remove(c.hash[o-1], nd.last<<chunkBits|(o-1))
			}
		}
		nd.length -= off + 1 - low
		if low == 0 || nd.length == 0 {
			x.chop(n)
		}
	}
	if length == 0 {
		x.leave(n)
		x.nodes.give(n)
	}
}

// split splits a run before its block i, 0 < i < length, and returns the new node of the first part; the second part
// keeps the node, its children and its place in the order of use. If the second part proves to contradict another
// chain, it is forgotten instead.
func (x *Index) split(n, i uint32) uint32 {
	nd := x.nodes.at(n)
	if x.chains {
		if c, off := x.chunkOf(nd, i); !x.add(x.chunks.at(c).hash[off], c<<chunkBits|off) {
			for id := nd.members; id != 0; id = x.members.at(id).next {
				x.forget(x.members.at(id).slot, n, i)
			}
			return n
		}
	}
	parent := nd.parent
	x.leave(n)
	head := x.newNode(parent)
	hd := x.nodes.at(head)
	hd.first, hd.ordinal, hd.start, hd.length, hd.at = nd.first, nd.ordinal, nd.start, i, nd.at

	c, off := x.chunkOf(nd, i)
	cut := x.chunks.at(c)
	hd.last = cut.prev
	if off > 0 {
		x.share(head, c, off)
	} else {
		x.chunks.at(cut.prev).next = 0
	}
	cut.prev = 0
	for id := hd.first; id != 0; {
		h := x.chunks.at(id)
		h.owner = head
		id = h.next
	}
	nd.first, nd.ordinal, nd.start = c, cut.ordinal, off
	nd.length -= i
	nd.at += i
	x.adopt(head, n)
	x.part(head, n)
	return head
}

// share copies the beginning of a chunk, up to off, to a new chunk at the end of a new head.
func (x *Index) share(head, c, off uint32) {
	id := x.chunks.take()
	hd, cut, own := x.nodes.at(head), x.chunks.at(c), x.chunks.at(id)
	own.ordinal, own.prev, own.next = cut.ordinal, hd.last, 0
	from := uint32(0)
	if hd.last == 0 {
		hd.first, from = id, hd.start
	} else {
		x.chunks.at(hd.last).next = id
	}
	hd.last = id
	for o := from; o < off; o++ {
		own.hash[o] = cut.hash[o]
		if !x.chains || id == hd.first && o == hd.start {
			x.table.move(cut.hash[o], c<<chunkBits|o, id<<chunkBits|o)
		}
	}
}
