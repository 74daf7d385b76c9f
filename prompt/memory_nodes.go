package prompt

// node is what is known of the body up to the end of one chunk: the last stop in it, and what blocks and marks the stop
// has beyond those of the stop before. A chunk without a stop has the values of the one before.
type node struct {
	key, check   uint64
	front        uint64
	parent       uint32 // the chunk before, 0 for none
	newer, older uint32 // in order of use; a node is older than its parent. older links free nodes
	cell         uint32 // first cell of what it has, 0 for nothing

	fromBlocks, fromMarks           uint32 // of the stop before
	raw, start                      uint32
	bytes, text, marks, media, lost uint32
	kinds                           [6]uint32
}

const (
	nodeBytes = 104 + 32 // and its place in the index
	pageNodes = 256
)

// nodePage is how room for nodes is taken.
type nodePage [pageNodes]node

// node is the node with a number, which is not 0.
func (m *Memory) node(n uint32) *node { return &m.nodes[n/pageNodes][n%pageNodes] }

// touch makes a node and those before it the ones last used, the first of them the very last. So the oldest of all has
// none after it.
func (m *Memory) touch(n uint32) {
	for ; n != 0; n = m.node(n).parent {
		if n != m.newest {
			m.unlink(n)
			m.link(n, 0)
		}
	}
}

func (m *Memory) unlink(n uint32) {
	at := m.node(n)
	if at.newer == 0 {
		m.newest = at.older
	} else {
		m.node(at.newer).older = at.older
	}
	if at.older == 0 {
		m.oldest = at.newer
	} else {
		m.node(at.older).newer = at.newer
	}
}

// link puts a node next after one that is newer, 0 for in front of all.
func (m *Memory) link(n, newer uint32) {
	at := m.node(n)
	at.newer, at.older = newer, m.newest
	if newer != 0 {
		at.older = m.node(newer).older
		m.node(newer).older = n
	} else {
		m.newest = n
	}
	if at.older != 0 {
		m.node(at.older).newer = n
	} else {
		m.oldest = n
	}
}

// put remembers the stop of a chunk, nil for none, after its parent. It returns 0 when there is no room or place for it.
// A node that is there is written anew.
func (m *Memory) put(key *chunkKey, parent uint32, s *stop, c *Chain) uint32 {
	n := m.index[key.key]
	switch {
	case n == 0:
		if n = m.newNode(parent); n == 0 {
			return 0
		}
		at := m.node(n)
		at.key, at.check, at.parent = key.key, key.check, parent
		m.index[key.key] = n
		m.link(n, parent)
	case m.node(n).check != key.check || m.node(n).parent != parent:
		return 0
	default:
		m.freeCells(m.node(n))
	}
	at := m.node(n)
	before := node{start: uint32(c.mainAt), front: c.front.hash}
	if parent != 0 {
		before = *m.node(parent)
	}
	at.front, at.start, at.cell = before.front, before.start, 0
	at.raw, at.bytes, at.text, at.marks, at.media, at.lost, at.kinds = before.raw, before.bytes, before.text, before.marks, before.media, before.lost, before.kinds
	at.fromBlocks, at.fromMarks = before.bytes/BlockBytes, before.marks
	if s == nil {
		return n
	}
	if int(before.bytes) > s.bytes || int(before.marks) > s.marks {
		return 0 // only of another body with the same keys
	}
	blocks, marks, from := c.Blocks[at.fromBlocks:s.bytes/BlockBytes], c.Marks[at.fromMarks:s.marks], tailStart(s.bytes)
	tail := c.text[from-c.base : s.bytes-c.base]
	w := writer{m: m, keep: n}
	if !w.begin(len(blocks) + 3*len(marks) + (len(tail)+7)/8) {
		m.drop(n)
		return 0
	}
	w.write(blocks)
	for i := range marks {
		k := &marks[i]
		w.write([]uint64{uint64(k.Bytes) | uint64(k.Role)<<32, k.Hash, k.Own})
	}
	w.text(tail)
	at.cell, at.front, at.start = w.first, c.front.hash, uint32(c.mainAt)
	at.raw, at.bytes, at.text, at.marks = uint32(s.raw), uint32(s.bytes), uint32(s.text), uint32(s.marks)
	at.media, at.lost = uint32(s.media), uint32(s.lost)
	k := &s.kinds
	at.kinds = [6]uint32{uint32(k.Latin), uint32(k.Code), uint32(k.CJK), uint32(k.Other), uint32(k.Digits), uint32(k.Starts)}
	return n
}

// newNode makes room for a node, which may be taken from the oldest but not from the one that is to be its parent.
func (m *Memory) newNode(parent uint32) uint32 {
	if m.freeNode == 0 && m.nodeCount < m.maxNodes {
		m.nodeCount++
		if int(m.nodeCount/pageNodes) == len(m.nodes) {
			m.nodes = append(m.nodes, new(nodePage))
		}
		return m.nodeCount
	}
	if m.freeNode == 0 && !m.evict(parent) {
		return 0
	}
	n := m.freeNode
	m.freeNode = m.node(n).older
	return n
}

// evict forgets the oldest node, unless that is the one to keep.
func (m *Memory) evict(keep uint32) bool {
	n := m.oldest
	if n == 0 || n == keep {
		return false
	}
	m.drop(n)
	return true
}

// drop forgets a node that none comes after.
func (m *Memory) drop(n uint32) {
	at := m.node(n)
	m.freeCells(at)
	m.unlink(n)
	delete(m.index, at.key)
	*at = node{older: m.freeNode}
	m.freeNode = n
}
