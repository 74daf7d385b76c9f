package prompt

// node is the state at the end of one chunk: its last stop, and the blocks and marks added since the previous stop. A
// chunk without a stop has the values of the one before.
type node struct {
	key, check   uint64
	front        uint64
	parent       uint32 // the previous chunk; 0 for none
	newer, older uint32 // in order of use; a node is older than its parent. older also links free nodes
	cell         uint32 // first cell of its data; 0 for none

	fromBlocks, fromMarks           uint32 // of the previous stop
	raw, start                      uint32
	bytes, text, marks, media, lost uint32
	kinds                           [6]uint32
}

const (
	nodeBytes = 104 + 32 // including its place in the index
	pageNodes = 256
)

// nodePage is a page of nodes.
type nodePage [pageNodes]node

// node returns the node with a number other than 0.
func (m *Memory) node(n uint32) *node { return &m.nodes[n/pageNodes][n%pageNodes] }

// touch makes a node and its ancestors the most recently used, the first ancestor last. So the oldest node has no
// descendants.
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

// link inserts a node after a newer one; 0 means at the front.
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

// newNode allocates a node, evicting the oldest if needed, but not its parent.
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

// evict drops the oldest node, unless it is keep.
func (m *Memory) evict(keep uint32) bool {
	n := m.oldest
	if n == 0 || n == keep {
		return false
	}
	m.drop(n)
	return true
}

// drop removes a node without descendants.
func (m *Memory) drop(n uint32) {
	at := m.node(n)
	m.freeCells(at)
	m.unlink(n)
	delete(m.index, at.key)
	*at = node{older: m.freeNode}
	m.freeNode = n
}
