package session

// lru is an exact, bounded LRU from a hash to a value. At steady state nothing is allocated.
type lru[V any] struct {
	max   int
	seen  filter
	index map[uint64]int32
	nodes []lruNode[V] // nodes[0] is the ring's root: next is the latest used, prev the least
}

type lruNode[V any] struct {
	key        uint64
	prev, next int32
	value      V
}

func newLRU[V any](most int) *lru[V] {
	return &lru[V]{max: most, seen: newFilter(most), index: make(map[uint64]int32), nodes: make([]lruNode[V], 1)}
}

// get finds a value and makes it the latest used; nil when there is none. The pointer is valid until the next put.
func (l *lru[V]) get(key uint64) *V {
	if !l.seen.has(key) {
		return nil
	}
	i, ok := l.index[key]
	if !ok {
		return nil
	}
	l.seen.add(key)
	l.unlink(i)
	l.link(i)
	return &l.nodes[i].value
}

// put enters or replaces a value; the least used one makes room.
func (l *lru[V]) put(key uint64, v V) {
	if p := l.get(key); p != nil {
		*p = v
		return
	}
	var i int32
	if len(l.nodes) <= l.max {
		l.nodes = append(l.nodes, lruNode[V]{})
		i = int32(len(l.nodes) - 1)
	} else {
		i = l.nodes[0].prev
		l.unlink(i)
		delete(l.index, l.nodes[i].key)
	}
	l.seen.add(key)
	l.nodes[i].key, l.nodes[i].value = key, v
	l.index[key] = i
	l.link(i)
}

func (l *lru[V]) link(i int32) {
	first := l.nodes[0].next
	l.nodes[i].prev, l.nodes[i].next = 0, first
	l.nodes[first].prev = i
	l.nodes[0].next = i
}

func (l *lru[V]) unlink(i int32) {
	n := &l.nodes[i]
	l.nodes[n.prev].next, l.nodes[n.next].prev = n.next, n.prev
}

func (l *lru[V]) len() int { return len(l.index) }
