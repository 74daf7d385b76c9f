package prefix

import "sort"

// member is one slot's hold on one node: the first length blocks of the run. A slot's members are listed in order of
// use; each is older than the one on its node's parent.
type member struct {
	node         uint32
	length       uint32 // blocks held; above 0
	stored       uint32 // of these, how many the engine reported as stored, or Confirm named
	prev, next   uint32 // members of the node
	newer, older uint32 // members of the slot
	slot         uint16
}

func (m *member) link() *uint32 { return &m.next }

// member returns a slot's hold on a node, or 0.
func (x *Index) member(n uint32, slot uint16) uint32 {
	id := x.nodes.at(n).members
	for id != 0 {
		m := x.members.at(id)
		if m.slot == slot {
			break
		}
		id = m.next
	}
	return id
}

// claim makes a slot hold the first k blocks of a node and all before it, and marks them as just used. If the engine
// reported the last of them, it holds all: engines store no block before its parent. The slot holds no more than k
// blocks of the node (see extend).
func (x *Index) claim(slot uint16, n, k, stored uint32) {
	s := &x.slots[slot]
	events := stored > 0
	// Deepest first, so that the deepest becomes the oldest of them.
	for n != 0 {
		nd := x.nodes.at(n)
		id := x.member(n, slot)
		var m *member
		if id == 0 {
			id = x.members.take()
			m = x.members.at(id)
			*m = member{node: n, slot: slot}
			x.join(n, id)
		} else {
			m = x.members.at(id)
			x.unlinkUse(s, m)
		}
		x.linkNewest(s, id)
		if m.length < k {
			s.blocks += int(k - m.length)
			s.units += x.units(nd, m.length, k)
			m.length = k
			if k == nd.length {
				nd.full++
			}
		}
		if events {
			t := min(stored, k)
			x.repeated(m, k-t, m.stored)
			m.stored = k
			stored -= t
		}
		n = nd.parent
		k = x.nodes.at(n).length
	}
}

// evict forgets the least recently used blocks until the slot is within its capacity.
func (x *Index) evict(s *slot) {
	for s.units > s.capacity {
		m := x.members.at(s.oldest)
		x.shrink(s.oldest, x.fitting(m, s.units-s.capacity))
	}
}

// fitting is how many blocks of a member's run may stay when this many units must go.
func (x *Index) fitting(m *member, units int) uint32 {
	if x.reach == nil {
		return m.length - min(m.length, uint32(units))
	}
	nd := x.nodes.at(m.node)
	gone := func(i int) bool { return x.units(nd, m.length-uint32(i), m.length) >= units }
	return m.length - uint32(min(sort.Search(int(m.length), gone), int(m.length)))
}

// shrink reduces a member; at 0 it is removed. No member of the slot is on a child of the node.
func (x *Index) shrink(id, length uint32) {
	m := x.members.at(id)
	n := m.node
	nd := x.nodes.at(n)
	s := &x.slots[m.slot]
	if len(x.repeats) > 0 {
		x.unrepeat(m, length)
	}
	s.blocks -= int(m.length - length)
	s.units -= x.units(nd, length, m.length)
	if m.length == nd.length && length < m.length {
		nd.full--
	}
	m.length, m.stored = length, min(m.stored, length)
	if length == 0 {
		x.quit(n, m)
		x.unlinkUse(s, m)
		x.members.give(id)
	}
	if nd.full == 0 {
		x.settle(n)
	}
}

// settle cuts a run to the part that is still held.
func (x *Index) settle(n uint32) {
	nd := x.nodes.at(n)
	var longest uint32
	for id := nd.members; id != 0; {
		m := x.members.at(id)
		switch {
		case m.length > longest:
			longest, nd.full = m.length, 1
		case m.length == longest:
			nd.full++
		}
		id = m.next
	}
	x.cut(n, longest)
}

// forget removes all but the first i blocks of a node from a slot, and all that follows them.
func (x *Index) forget(slot uint16, n, i uint32) {
	id := x.member(n, slot)
	if id == 0 || x.members.at(id).length <= i {
		return
	}
	// Parents come before their children in this list, so it is processed from its end.
	held := append(x.scratch[:0], n)
	for at := 0; at < len(held); at++ {
		nd := x.nodes.at(held[at])
		if x.members.at(x.member(held[at], slot)).length < nd.length {
			continue // only a slot that holds a whole run can hold what follows
		}
		for c := nd.child; c != 0; c = x.nodes.at(c).next {
			if x.member(c, slot) != 0 {
				held = append(held, c)
			}
		}
	}
	for at := len(held) - 1; at > 0; at-- {
		x.shrink(x.member(held[at], slot), 0)
	}
	x.scratch = held
	x.shrink(id, i)
}

// part gives the members of a split node their share of the new head before it.
func (x *Index) part(head, n uint32) {
	hd, nd := x.nodes.at(head), x.nodes.at(n)
	for id := nd.members; id != 0; {
		m := x.members.at(id)
		next := m.next
		if m.length <= hd.length {
			x.quit(n, m)
			m.node = head
			x.join(head, id)
			if m.length == hd.length {
				hd.full++
			}
			id = next
			continue
		}
		own := x.members.take()
		o := x.members.at(own)
		*o = member{node: head, slot: m.slot, length: hd.length, stored: min(m.stored, hd.length)}
		m.length -= o.length
		m.stored -= o.stored
		x.join(head, own)
		hd.full++
		// Just newer than the part that stays.
		s := &x.slots[m.slot]
		o.older, o.newer = id, m.newer
		if m.newer != 0 {
			x.members.at(m.newer).older = own
		} else {
			s.newest = own
		}
		m.newer = own
		id = next
	}
}

func (x *Index) join(n, id uint32) {
	nd, m := x.nodes.at(n), x.members.at(id)
	m.prev, m.next = 0, nd.members
	if nd.members != 0 {
		x.members.at(nd.members).prev = id
	}
	nd.members = id
}

func (x *Index) quit(n uint32, m *member) {
	if m.prev != 0 {
		x.members.at(m.prev).next = m.next
	} else {
		x.nodes.at(n).members = m.next
	}
	if m.next != 0 {
		x.members.at(m.next).prev = m.prev
	}
}

func (x *Index) linkNewest(s *slot, id uint32) {
	m := x.members.at(id)
	m.newer, m.older = 0, s.newest
	if s.newest != 0 {
		x.members.at(s.newest).newer = id
	} else {
		s.oldest = id
	}
	s.newest = id
}

func (x *Index) unlinkUse(s *slot, m *member) {
	if w := s.walk; w != nil && w.visited != 0 && x.members.at(w.visited) == m {
		w.visited = m.older
	}
	if m.newer != 0 {
		x.members.at(m.newer).older = m.older
	} else {
		s.newest = m.older
	}
	if m.older != 0 {
		x.members.at(m.older).newer = m.newer
	} else {
		s.oldest = m.newer
	}
}
