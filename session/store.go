package session

import "time"

// An order is one of the two orders in which a store keeps its nodes. They differ because reading an entry is a use but
// does not extend its life.
type order int

const (
	byUse order = iota // least recently used last
	byAge              // longest unwritten last
	orders
)

// A node is one entry with its place in each order. Links are positions in the store: half the size of pointers, and no
// work for the garbage collector.
type node struct {
	key             Key
	identity        string // result of keep; "" when only the hash is known or kept
	endpoint, model string
	leader          string
	tokens, turns   int
	prompt, bytes   int32
	epoch, flow     uint32
	rest            uint32
	marks           [4]uint32
	owner           uint8
	last            time.Duration // since Table.origin
	links           [orders]link
}

type link struct{ newer, older int32 }

// none means no node. Position 0 is the head of the ring by age and holds no entry.
const none int32 = 0

// owners is how many owners a store tells apart; those with one number are one.
const owners = 256

// shares are the rings by use, one for each owner.
type shares struct {
	heads [owners]link
	held  [owners]int32 // nodes of each
}

// fullest is the owner with the most nodes.
func (s *shares) fullest() (owner uint8) {
	for i := range s.held {
		if s.held[i] > s.held[owner] {
			owner = uint8(i)
		}
	}
	return owner
}

// pageNodes is the number of nodes allocated at once. The store grows by whole pages without copying, so that no Put
// moves the whole table.
const pageNodes = 512

// A store holds nodes in pages, linked into one ring by age and one by use for each owner, and reuses freed nodes.
type store struct {
	pages  []*[pageNodes]node
	shares shares
	used   int32 // positions ever used, including the head
	unused int32 // first free node; the next one is in its links[byUse].older
	walked int32 // last node that a walk by age returned; none before the first
}

func newStore() store { return store{pages: []*[pageNodes]node{new([pageNodes]node)}, used: 1} }

func (s *store) at(i int32) *node { return &s.pages[uint32(i)/pageNodes][uint32(i)%pageNodes] }

// link is a node's place in an order; that of none is the head of the ring of an owner.
func (s *store) link(o order, owner uint8, i int32) *link {
	if i == none && o == byUse {
		return &s.shares.heads[owner]
	}
	return &s.at(i).links[o]
}

// take returns a cleared node that is in no order.
func (s *store) take() int32 {
	if i := s.unused; i != none {
		n := s.at(i)
		s.unused = n.links[byUse].older
		n.links = [orders]link{}
		return i
	}
	i := s.used
	if int(i/pageNodes) == len(s.pages) {
		s.pages = append(s.pages, new([pageNodes]node))
	}
	s.used++
	return i
}

// free clears a node, so that its strings can be collected, and keeps it for reuse.
func (s *store) free(i int32) {
	for o := range orders {
		s.unlink(o, i)
	}
	n := s.at(i)
	*n = node{}
	n.links[byUse].older = s.unused
	s.unused = i
}

// own gives a node to an owner.
func (s *store) own(i int32, owner uint8) {
	if n := s.at(i); n.owner != owner {
		s.unlink(byUse, i)
		n.owner = owner
	}
}

// moveToFront makes a node the newest of an order, whether or not it was in it.
func (s *store) moveToFront(o order, i int32) {
	owner := s.at(i).owner
	head := s.link(o, owner, none)
	if head.older == i {
		if o == byAge && s.walked == i { // it is about to change
			s.walked = s.at(i).links[o].older
		}
		return
	}
	s.unlink(o, i)
	second := head.older
	s.at(i).links[o] = link{newer: none, older: second}
	s.link(o, owner, second).newer = i
	head.older = i
	if o == byUse {
		s.shares.held[owner]++
	}
}

// oldest is the last node by age, or none.
func (s *store) oldest() int32 { return s.at(none).links[byAge].newer }

// leastUsed is the last node by use of the owner that has the most, or none.
func (s *store) leastUsed() int32 { return s.shares.heads[s.shares.fullest()].newer }

// unlink removes a node from an order. A node that is in no order links to the head on both sides and the head does not
// link back; unlinking it must leave the head alone.
func (s *store) unlink(o order, i int32) {
	l, owner := s.at(i).links[o], s.at(i).owner
	if s.link(o, owner, l.older).newer != i {
		return
	}
	if o == byAge && s.walked == i {
		s.walked = l.older
	}
	s.link(o, owner, l.newer).older = l.older
	s.link(o, owner, l.older).newer = l.newer
	s.at(i).links[o] = link{}
	if o == byUse {
		s.shares.held[owner]--
	}
}
