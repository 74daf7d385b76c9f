package prefix

import "unsafe"

// fataler is the common part of *testing.T and *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkInvariants checks every record and finds all that are in use.
func checkInvariants(t fataler, x *Index) {
	t.Helper()
	nodes, chunks, blocks, members := 1, 1, 0, 1
	seen := map[uint32]bool{}
	held := map[uint16]int{}
	stack := []uint32{0}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		nd := x.nodes.at(n)
		prev := uint32(0)
		for c := nd.child; c != 0; c = x.nodes.at(c).next {
			if got := x.nodes.at(c); got.parent != n || got.prev != prev {
				t.Fatalf("node %d: parent %d, previous sibling %d; want %d and %d", c, got.parent, got.prev, n, prev)
			}
			prev = c
			nodes++
			stack = append(stack, c)
		}
		if n == 0 {
			continue
		}
		chunks += checkRun(t, x, n)
		blocks += int(nd.length)
		members += checkMembers(t, x, n, seen, held)
	}
	checkSlots(t, x, held)
	entries := blocks
	if x.chains {
		entries = nodes - 1
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"nodes", x.nodes.given(), nodes},
		{"chunks", x.chunks.given(), chunks},
		{"members", x.members.given(), members},
		{"blocks", x.Blocks(), blocks},
		{"table entries", x.table.entries(), entries},
	} {
		if c.got != c.want {
			t.Fatalf("%d %s handed out, %d in use", c.got, c.what, c.want)
		}
	}
	for r := range x.repeats {
		a := x.find(r.hash)
		if a == 0 {
			t.Fatalf("block %d is repeated on slot %d and held by nobody", r.hash, r.slot)
		}
		n, i := x.locate(a)
		if id := x.member(n, r.slot); id == 0 || x.members.at(id).stored <= i {
			t.Fatalf("block %d is repeated on slot %d, which was not told of it", r.hash, r.slot)
		}
	}
}

// checkMembers checks the list of a node and sums the blocks of each slot. It returns the number of members.
func checkMembers(t fataler, x *Index, n uint32, seen map[uint32]bool, held map[uint16]int) (members int) {
	t.Helper()
	nd := x.nodes.at(n)
	full, prev := uint32(0), uint32(0)
	for id := nd.members; id != 0; id = x.members.at(id).next {
		m := x.members.at(id)
		if m.node != n || m.prev != prev || m.length == 0 || m.length > nd.length || m.stored > m.length || seen[id] {
			t.Fatalf("node %d of %d blocks has member %d: %+v", n, nd.length, id, *m)
		}
		if nd.parent != 0 {
			up := x.member(nd.parent, m.slot)
			if up == 0 || x.members.at(up).length != x.nodes.at(nd.parent).length {
				t.Fatalf("slot %d holds node %d but not all of its parent %d", m.slot, n, nd.parent)
			}
		}
		if m.length == nd.length {
			full++
		}
		seen[id] = true
		prev = id
		members++
		held[m.slot] += int(m.length)
	}
	if full == 0 || full != nd.full {
		t.Fatalf("node %d says that %d members hold all of it, %d do", n, nd.full, full)
	}
	return members
}

// checkRun checks the chunks of a node and looks up each block. It returns the number of chunks.
func checkRun(t fataler, x *Index, n uint32) (chunks int) {
	t.Helper()
	nd := x.nodes.at(n)
	i, off, prev := uint32(0), nd.start, uint32(0)
	for id := nd.first; id != 0; id = x.chunks.at(id).next {
		c := x.chunks.at(id)
		if c.owner != n || c.prev != prev || c.ordinal != nd.ordinal+uint32(chunks) {
			t.Fatalf("chunk %d of node %d: %+v", id, n, *c)
		}
		if i >= nd.length {
			t.Fatalf("node %d of %d blocks has a chunk too many", n, nd.length)
		}
		for ; off < chunkLen && i < nd.length; off++ {
			if a := x.find(c.hash[off]); a != id<<chunkBits|off && x.listed(i) {
				t.Fatalf("block %d of node %d is at %x in the table, want %x", i, n, a, id<<chunkBits|off)
			}
			if gotN, gotI := x.locate(id<<chunkBits | off); gotN != n || gotI != i {
				t.Fatalf("block %d of node %d is located at block %d of node %d", i, n, gotI, gotN)
			}
			i++
		}
		off, prev = 0, id
		chunks++
	}
	if i != nd.length || nd.last != prev || nd.length == 0 {
		t.Fatalf("node %d says %d blocks up to chunk %d, has %d up to %d", n, nd.length, nd.last, i, prev)
	}
	return chunks
}

// checkSlots checks each slot's order of use.
func checkSlots(t fataler, x *Index, held map[uint16]int) {
	t.Helper()
	for i := range x.slots {
		s := &x.slots[i]
		if s.blocks != held[uint16(i)] || s.blocks > s.capacity {
			t.Fatalf("slot %d counts %d blocks of %d, holds %d", i, s.blocks, s.capacity, held[uint16(i)])
		}
		blocks, newer := 0, uint32(0)
		passed := map[uint32]bool{0: true} // nodes nearer to the newest
		for id := s.newest; id != 0; id = x.members.at(id).older {
			m := x.members.at(id)
			if m.newer != newer || int(m.slot) != i || !passed[x.nodes.at(m.node).parent] {
				t.Fatalf("slot %d: member %d %+v is in the wrong place", i, id, *m)
			}
			passed[m.node] = true
			blocks += int(m.length)
			newer = id
		}
		if s.oldest != newer || blocks != s.blocks {
			t.Fatalf("slot %d: order of use has %d blocks up to %d, want %d up to %d",
				i, blocks, newer, s.blocks, s.oldest)
		}
	}
}

// Sizes of the records, for Bytes.
const (
	_ = uint(chunkBytes-unsafe.Sizeof(chunk{})) + uint(unsafe.Sizeof(chunk{})-chunkBytes)
	_ = uint(nodeBytes-unsafe.Sizeof(node{})) + uint(unsafe.Sizeof(node{})-nodeBytes)
	_ = uint(memberBytes-unsafe.Sizeof(member{})) + uint(unsafe.Sizeof(member{})-memberBytes)
	_ = uint(slotBytes-unsafe.Sizeof(slot{})) + uint(unsafe.Sizeof(slot{})-slotBytes)
)
