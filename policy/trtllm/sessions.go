package trtllm

import "sort"

// sessions is the memory of trtllm.conversation: sessions with their endpoints in order of use, and a tree of their
// prompts' blocks. A block's hash covers all before it, so it has one place in the tree. A block is stored once for all
// its sessions, at about 60 bytes; a block without sessions is removed.
type sessions struct {
	most   int // sessions
	blocks int // blocks in the tree; beyond that the oldest sessions keep their key only
	index  map[uint64]uint32
	table  []session // 0 is the ring's root: its next is the oldest, its prev the newest
	unused []uint32  // free places of table

	at    map[uint64]uint32 // hash -> place in nodes
	nodes []node            // 0 is the root
	bare  []uint32          // free places of nodes
}

type session struct {
	key        uint64 // of the conversation
	endpoint   uint64 // Candidate.Key
	end        uint32 // node at the end of its prompt; 0 when it is not in the tree
	prev, next uint32 // by use
	from, to   uint32 // by use, among those in the tree
	side, peer uint32 // previous and next session that end at the same node
}

type node struct {
	hash           uint64
	parent, child  uint32 // child is the latest of its children
	sister, senior uint32 // next and previous child of the parent
	passed         uint32 // the last session that passed here, or another one that still does
	ends           uint32 // the latest session that ends here; 0 for none
}

const mostBlocks = 1 << 20 // of 128 bytes

func newSessions(most int) sessions {
	return sessions{
		most: most, blocks: mostBlocks, index: map[uint64]uint32{}, table: make([]session, 1),
		at: map[uint64]uint32{}, nodes: make([]node, 1),
	}
}

// put sets a conversation's endpoint and prompt and makes it the most recently used.
func (s *sessions) put(key, endpoint uint64, chain []uint64) {
	id, known := s.index[key]
	if known {
		s.unlink(id)
	} else {
		if len(s.index) >= s.most {
			s.forget(s.table[0].next)
		}
		if n := len(s.unused); n > 0 {
			id, s.unused = s.unused[n-1], s.unused[:n-1]
		} else {
			id = uint32(len(s.table))
			s.table = append(s.table, session{})
		}
		s.table[id] = session{key: key}
		s.index[key] = id
	}
	s.table[id].endpoint = endpoint
	last := s.table[0].prev
	s.table[id].prev, s.table[id].next = last, 0
	s.table[last].next, s.table[0].prev = id, id
	s.cut(id)
	if len(chain) > 0 {
		last := s.table[0].from
		s.table[id].from, s.table[id].to = last, 0
		s.table[last].to, s.table[0].from = id, id
	}
	s.move(id, s.grow(chain))
	for s.size() > s.blocks && s.table[0].to != id {
		old := s.table[0].to
		s.cut(old)
		s.move(old, 0)
	}
}

// cut removes a session from the order of those in the tree, if it is there.
func (s *sessions) cut(id uint32) {
	e := &s.table[id]
	if e.end == 0 {
		return
	}
	s.table[e.from].to, s.table[e.to].from = e.to, e.from
	e.from, e.to = 0, 0
}

// where is the endpoint of a conversation.
func (s *sessions) where(key uint64) (endpoint uint64, known bool) {
	id, known := s.index[key]
	if !known {
		return 0, false
	}
	return s.table[id].endpoint, true
}

// size is the number of blocks in the tree.
func (s *sessions) size() int { return len(s.at) }

func (s *sessions) forget(id uint32) {
	s.cut(id)
	s.move(id, 0)
	s.unlink(id)
	delete(s.index, s.table[id].key)
	s.unused = append(s.unused, id)
}

// leave forgets the sessions of an endpoint. It visits all of them: endpoints rarely leave.
func (s *sessions) leave(endpoint uint64) {
	for id := s.table[0].next; id != 0; {
		next := s.table[id].next
		if s.table[id].endpoint == endpoint {
			s.forget(id)
		}
		id = next
	}
}

func (s *sessions) unlink(id uint32) {
	e := &s.table[id]
	s.table[e.prev].next, s.table[e.next].prev = e.next, e.prev
}

// depth is the number of blocks of a chain, from the first on, in the tree.
func (s *sessions) depth(chain []uint64) int {
	return sort.Search(len(chain), func(i int) bool { return s.at[chain[i]] == 0 })
}

// find returns a session with the longest common prefix with the chain, at least least blocks, whose endpoint fits. Of
// several it prefers the last that passed; if that does not fit (its endpoint is unavailable) it tries others, up to
// mostVisits.
func (s *sessions) find(chain []uint64, least int, fits func(endpoint uint64) bool) (key uint64, depth int) {
	const mostVisits = 4096
	visits, seen := mostVisits, uint32(0)
	for depth = s.depth(chain); depth >= max(1, least) && visits > 0; depth-- {
		n := s.at[chain[depth-1]]
		if id := s.among(n, seen, &visits, fits); id != 0 {
			return s.table[id].key, depth
		}
		seen = n
	}
	return 0, 0
}

// among finds a fitting session in the subtree of top, without the child that has been searched.
func (s *sessions) among(top, seen uint32, visits *int, fits func(endpoint uint64) bool) uint32 {
	for n := top; *visits > 0; *visits-- {
		d := &s.nodes[n]
		if fits(s.table[d.passed].endpoint) {
			return d.passed
		}
		for id := d.ends; id != 0 && *visits > 0; id, *visits = s.table[id].peer, *visits-1 {
			if fits(s.table[id].endpoint) {
				return id
			}
		}
		next := s.unseen(d.child, seen)
		for next == 0 && n != top {
			next, n = s.unseen(s.nodes[n].sister, seen), s.nodes[n].parent
		}
		if next == 0 {
			return 0
		}
		n = next
	}
	return 0
}

// unseen is a node, or its sibling if it has been searched.
func (s *sessions) unseen(n, seen uint32) uint32 {
	if n != 0 && n == seen {
		return s.nodes[n].sister
	}
	return n
}

// grow creates nodes for a chain and returns the last.
func (s *sessions) grow(chain []uint64) uint32 {
	n, i := uint32(0), s.depth(chain)
	if i > 0 {
		n = s.at[chain[i-1]]
	}
	for _, hash := range chain[i:] {
		var c uint32
		if k := len(s.bare); k > 0 {
			c, s.bare = s.bare[k-1], s.bare[:k-1]
		} else {
			c = uint32(len(s.nodes))
			s.nodes = append(s.nodes, node{})
		}
		first := s.nodes[n].child
		s.nodes[c] = node{hash: hash, parent: n, sister: first}
		s.nodes[first].senior = c // if there is none it is the root's, which is never read
		s.nodes[n].child = c
		s.at[hash] = c
		n = c
	}
	return n
}

// move sets the node at which a session ends, 0 for none, and removes nodes without sessions.
func (s *sessions) move(id, to uint32) {
	e := &s.table[id]
	from := e.end
	if from != to {
		if from != 0 {
			if e.side != 0 {
				s.table[e.side].peer = e.peer
			} else {
				s.nodes[from].ends = e.peer
			}
			if e.peer != 0 {
				s.table[e.peer].side = e.side
			}
		}
		e.end, e.side, e.peer = to, 0, 0
		if to != 0 {
			first := s.nodes[to].ends
			if e.peer = first; first != 0 {
				s.table[first].side = id
			}
			s.nodes[to].ends = id
		}
		s.prune(from, id)
	}
	for n := to; n != 0; n = s.nodes[n].parent {
		s.nodes[n].passed = id
	}
}

// prune walks up from a node at which a session no longer ends.
func (s *sessions) prune(n, id uint32) {
	for n != 0 {
		d := &s.nodes[n]
		parent := d.parent
		switch {
		case d.ends == 0 && d.child == 0:
			if d.senior != 0 {
				s.nodes[d.senior].sister = d.sister
			} else {
				s.nodes[parent].child = d.sister
			}
			if d.sister != 0 {
				s.nodes[d.sister].senior = d.senior
			}
			delete(s.at, d.hash)
			*d = node{}
			s.bare = append(s.bare, n)
		case d.passed != id:
		case d.ends != 0:
			d.passed = d.ends
		default:
			d.passed = s.nodes[d.child].passed
		}
		n = parent
	}
}
