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
	last            time.Duration // since Table.origin
	links           [orders]link
}

type link struct{ newer, older int32 }

// none means no node. Position 0 is the head of both rings and holds no entry.
const none int32 = 0

// pageNodes is the number of nodes allocated at once. The store grows by whole pages without copying, so that no Put
// moves the whole table.
const pageNodes = 512

// A store holds nodes in pages, linked into one ring per order, and reuses freed nodes.
type store struct {
	pages  []*[pageNodes]node
	used   int32 // positions ever used, including the head
	unused int32 // first free node; the next one is in its links[byUse].older
	walked int32 // last node that a walk by age returned; none before the first
}

func newStore() store { return store{pages: []*[pageNodes]node{new([pageNodes]node)}, used: 1} }

func (s *store) at(i int32) *node { return &s.pages[uint32(i)/pageNodes][uint32(i)%pageNodes] }

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

// moveToFront makes a node the newest of an order, whether or not it was in it.
func (s *store) moveToFront(o order, i int32) {
	head := &s.at(none).links[o]
	if head.older == i {
		if o == byAge && s.walked == i { // it is about to change
			s.walked = s.at(i).links[o].older
		}
		return
	}
	s.unlink(o, i)
	second := head.older
	s.at(i).links[o] = link{newer: none, older: second}
	s.at(second).links[o].newer = i
	head.older = i
}

// oldest is the last node of an order, or none.
func (s *store) oldest(o order) int32 { return s.at(none).links[o].newer }

// unlink removes a node from an order. A node that is in no order links to the head on both sides and the head does not
// link back; unlinking it must leave the head alone.
func (s *store) unlink(o order, i int32) {
	l := s.at(i).links[o]
	if s.at(l.older).links[o].newer != i {
		return
	}
	if o == byAge && s.walked == i {
		s.walked = l.older
	}
	s.at(l.newer).links[o].older = l.older
	s.at(l.older).links[o].newer = l.newer
	s.at(i).links[o] = link{}
}
