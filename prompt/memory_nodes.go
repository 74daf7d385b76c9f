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
