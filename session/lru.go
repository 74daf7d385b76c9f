package session

// lru is an exact, bounded LRU map from a hash to a value. It grows by whole pages without copying; at steady state it
// allocates nothing.
type lru[V any] struct {
	most  int32
	used  int32 // nodes ever used, including the root
	index index
	pages []*[pageNodes]lruNode[V]

	walked int32 // last node that the walk returned; none before the first
}

// lruNode is a value in the ring in order of use. Node 0 is the ring's root: next is the most recently used, prev the
// least.
type lruNode[V any] struct {
	key        uint64
	prev, next int32
	value      V
}

func newLRU[V any](most int) *lru[V] {
	l := &lru[V]{most: int32(most), used: 1, pages: []*[pageNodes]lruNode[V]{new([pageNodes]lruNode[V])}}
	l.index = newIndex(func(i int32) uint64 { return l.at(i).key })
	return l
}

// setMost replaces the bound. Entries beyond a smaller bound stay, but no page is added. The index grows with its
// entries.
func (l *lru[V]) setMost(most int) { l.most = int32(most) }

func (l *lru[V]) at(i int32) *lruNode[V] {
	return &l.pages[uint32(i)/pageNodes][uint32(i)%pageNodes]
}

// find returns the number of a key's node, or none. It does not count as a use.
func (l *lru[V]) find(key uint64) int32 {
	return l.index.find(key, func(i int32) bool { return l.at(i).key == key })
}

// get finds a value and makes it the most recently used; nil if absent. The pointer is valid until the next put.
func (l *lru[V]) get(key uint64) *V {
	i := l.find(key)
	if i == none {
		return nil
	}
	return l.touch(i)
}

// put adds or replaces a value and evicts the least recently used one if needed.
func (l *lru[V]) put(key uint64, v V) {
	if i := l.find(key); i != none {
		*l.touch(i) = v
		return
	}
	l.enter(key, v)
}

// enter is put for a key that is absent.
func (l *lru[V]) enter(key uint64, v V) *V {
	i := l.used
	if i <= l.most {
		if int(i/pageNodes) == len(l.pages) {
			l.pages = append(l.pages, new([pageNodes]lruNode[V]))
		}
		l.used++
	} else {
		i = l.root().prev
		l.index.remove(l.at(i).key, i)
		l.unlink(l.at(i), i)
	}
	n := l.at(i)
	n.key, n.value = key, v
	l.index.insert(key, i)
	l.link(n, i)
	return &n.value
}

// touch makes a node the most recently used.
func (l *lru[V]) touch(i int32) *V {
	n := l.at(i)
	if l.root().next != i {
		l.unlink(n, i)
		l.link(n, i)
	} else if l.walked == i { // its value may be about to change
		l.walked = n.next
	}
	return &n.value
}

func (l *lru[V]) root() *lruNode[V] { return &l.pages[0][none] }

func (l *lru[V]) link(n *lruNode[V], i int32) {
	root := l.root()
	n.prev, n.next = none, root.next
	l.at(root.next).prev = i
	root.next = i
}

func (l *lru[V]) unlink(n *lruNode[V], i int32) {
	if l.walked == i {
		l.walked = n.next
	}
	l.at(n.prev).next, l.at(n.next).prev = n.next, n.prev
}
