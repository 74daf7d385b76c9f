package admission

import (
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/session"
)

// A conversation that is no member any more has lapsed while most of its cache is still there: an engine evicts what
// was not used for longest, and no more of it than it needs room. When it comes back it goes on there at once. It
// evicts little, and to hold it would let its cache be evicted.

// lapse keeps a conversation that is no member any more.
func (t *Table) lapse(m *member) {
	*m = member{key: m.key, slot: m.slot, tokens: m.tokens}
	t.lapsed[m.key] = m
	e := t.endpoints.Get(m.slot)
	e.lapsed.add(m)
	e.lapsedHave += m.tokens
}

func (t *Table) forgetLapsed(key session.Key) {
	m := t.lapsed[key]
	if m == nil {
		return
	}
	delete(t.lapsed, key)
	e := t.endpoints.Get(m.slot)
	e.lapsed.remove(m)
	e.lapsedHave -= m.tokens
	t.spare.put(m)
}

// trimLapsed forgets those of an endpoint that lapsed first while half of their cache is evicted, to make room for its
// members and for those that lapsed later.
func (t *Table) trimLapsed(e *endpoint) {
	for l := &e.lapsed; l.count > 0 &&
		(e.filled()+e.lapsedHave-l.first.tokens/2 > e.room || l.count > bound.Most); {
		t.forgetLapsed(l.first.key)
	}
}

// dropLapsed forgets all those of an endpoint.
func (t *Table) dropLapsed(e *endpoint) {
	for e.lapsed.count > 0 {
		t.forgetLapsed(e.lapsed.first.key)
	}
}

// list is members in the order in which they came. The zero list is empty.
type list struct {
	first, last *member
	count       int
}

func (l *list) add(m *member) {
	if m.prev, m.next = l.last, nil; l.last == nil {
		l.first = m
	} else {
		l.last.next = m
	}
	l.last = m
	l.count++
}

func (l *list) remove(m *member) {
	if m.prev == nil {
		l.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		l.last = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.prev, m.next = nil, nil
	l.count--
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
