package admission

import (
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/session"
)

// lapsedTable is the conversations that are no members any more, and most of whose cache is still there: an engine
// evicts what was not used for longest, and no more of it than it needs room. When one comes back it goes on there at
// once. It evicts little, and to hold it would let its cache be evicted.
type lapsedTable struct {
	byKey map[session.Key]*member
	at    map[int]*lapsedRing // by slot
	spare *spare
}

type lapsedRing struct {
	head   member // of a ring, the one that lapsed first is next
	tokens int64
	count  int
}

func newLapsed(spare *spare) lapsedTable {
	return lapsedTable{map[session.Key]*member{}, map[int]*lapsedRing{}, spare}
}

// add adds a conversation that is no member any more.
func (l *lapsedTable) add(m *member) {
	r := l.at[m.slot]
	if r == nil {
		r = &lapsedRing{}
		r.head.prev, r.head.next = &r.head, &r.head
		l.at[m.slot] = r
	}
	*m = member{key: m.key, slot: m.slot, tokens: m.tokens, prev: r.head.prev, next: &r.head}
	m.prev.next, r.head.prev = m, m
	r.tokens += m.tokens
	r.count++
	l.byKey[m.key] = m
}

// remove forgets a conversation, if it is here.
func (l *lapsedTable) remove(key session.Key) {
	x := l.byKey[key]
	if x == nil {
		return
	}
	delete(l.byKey, key)
	r := l.at[x.slot]
	x.prev.next, x.next.prev = x.next, x.prev
	r.tokens -= x.tokens
	r.count--
	l.spare.put(x)
}

// trim forgets those of an endpoint that lapsed first while half of their cache is evicted, to make room for its
// members and for those that lapsed later.
func (l *lapsedTable) trim(slot int, e *endpoint) {
	for r := l.at[slot]; r != nil && r.count > 0 &&
		(e.filled()+r.tokens-r.head.next.tokens/2 > e.room || r.count > bound.Most); {
		l.remove(r.head.next.key)
	}
}

// left forgets those of an endpoint that has left.
func (l *lapsedTable) left(slot int) {
	for r := l.at[slot]; r != nil && r.count > 0; {
		l.remove(r.head.next.key)
	}
	delete(l.at, slot)
}

// spare is the memory of members that are none any more, and have no running turns, to be used again.
type spare []*member

// put adds one; bound.Few are kept.
func (s *spare) put(m *member) {
	if len(*s) < bound.Few {
		*s = append(*s, m)
	}
}

// take is an empty one.
func (s *spare) take() *member {
	n := len(*s)
	if n == 0 {
		return &member{}
	}
	m := (*s)[n-1]
	*s, *m = (*s)[:n-1], member{names: m.names[:0]}
	return m
}
