package sent

// Bindings is a bounded map from a conversation to the key of a rank. The least recently used one goes first.
type Bindings struct {
	most  int
	index map[uint64]int32
	table []binding // 0 is the ring's root: its next is the most recently used, its prev the least
	free  []int32   // places of table that are not used
}

type binding struct {
	conversation, rank uint64
	prev, next         int32
}

// NewBindings returns a map of at most this many conversations.
func NewBindings(most int) Bindings {
	return Bindings{most: most, index: map[uint64]int32{}, table: make([]binding, 1)}
}

// Peek returns a conversation's rank and changes nothing.
func (b *Bindings) Peek(conversation uint64) (rank uint64, ok bool) {
	i, ok := b.index[conversation]
	return b.table[i].rank, ok
}

// Put sets the rank of a conversation.
func (b *Bindings) Put(conversation, rank uint64) {
	i, ok := b.index[conversation]
	switch {
	case ok:
		b.unlink(i)
	case len(b.free) > 0:
		i, b.free = b.free[len(b.free)-1], b.free[:len(b.free)-1]
	case len(b.table) <= b.most:
		i = int32(len(b.table))
		b.table = append(b.table, binding{})
	default:
		i = b.table[0].prev
		b.unlink(i)
		delete(b.index, b.table[i].conversation)
	}
	b.table[i].conversation, b.table[i].rank = conversation, rank
	b.index[conversation] = i
	b.link(i)
}

// Forget removes the conversations of a rank. It visits all conversations: ranks rarely leave.
func (b *Bindings) Forget(rank uint64) {
	for i := b.table[0].next; i != 0; {
		e := b.table[i]
		if e.rank == rank {
			b.unlink(i)
			delete(b.index, e.conversation)
			b.free = append(b.free, i)
		}
		i = e.next
	}
}

func (b *Bindings) unlink(i int32) {
	e := &b.table[i]
	b.table[e.prev].next, b.table[e.next].prev = e.next, e.prev
}

func (b *Bindings) link(i int32) {
	first := b.table[0].next
	b.table[i].prev, b.table[i].next = 0, first
	b.table[first].prev, b.table[0].next = i, i
}
