package session

import (
	"math"
	"time"
)

// sweepPerPut is how many expired entries one Put drops at most. It is above one, so that the table shrinks, and small,
// so that a Put after a long silence is cheap.
const sweepPerPut = 4

// evictPerPut is how many entries one Put evicts at most after the bound was reduced.
const evictPerPut = 4

// Table remembers conversations. It is not safe for concurrent use.
type Table struct {
	max      int
	ttl      time.Duration
	hashOnly bool

	index index // positions of entries in store
	store store

	began  bool
	origin time.Time     // the first time passed in; all times are stored relative to it
	latest time.Duration // the latest time passed in: a clock that goes back counts as standing still
	stats  Stats

	dropped func(Entry) // see OnDrop
}

// New returns an empty table. It panics when c is invalid.
func New(c Config) *Table {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	c = c.WithDefaults()
	t := &Table{max: c.Max, ttl: c.IdleTTL, hashOnly: c.HashOnly, store: newStore()}
	t.index = newIndex(func(i int32) uint64 { return t.store.at(i).key.lo })
	return t
}

// OnDrop sets a function that is called with each entry that the table forgets by itself: expired, evicted, or
// displaced by another with the same hash. It must not use the table.
func (t *Table) OnDrop(f func(Entry)) { t.dropped = f }

// SetConfig replaces the bounds; it panics when c is invalid. A table above a smaller Max evicts a few entries with
// each Put, least recently used first. Names already stored stay until their conversation goes, even if HashOnly is set
// now.
func (t *Table) SetConfig(c Config) {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	c = c.WithDefaults()
	t.max, t.ttl, t.hashOnly = c.Max, c.IdleTTL, c.HashOnly
}

// Get finds a conversation. It counts as a use for eviction and does not extend the entry's life. An expired entry is
// dropped and reported as absent.
func (t *Table) Get(now time.Time, n *Name) (Entry, bool) {
	at := t.clock(now)
	i := t.find(n)
	if i != none && t.expired(i, at) {
		t.expire(i)
		i = none
	}
	if i == none {
		t.stats.Misses++
		return Entry{}, false
	}
	t.stats.Hits++
	t.store.moveToFront(byUse, i)
	return t.entry(i), true
}

// Peek is Get without side effects: it does not count as a use and leaves expired entries.
func (t *Table) Peek(now time.Time, n *Name) (Entry, bool) {
	i := t.find(n)
	if i == none || t.expired(i, t.peekClock(now)) {
		return Entry{}, false
	}
	return t.entry(i), true
}

// entry is the Entry at a position.
func (t *Table) entry(i int32) Entry {
	n := t.store.at(i)
	return Entry{
		Endpoint: n.endpoint, Model: n.model, Tokens: n.tokens, Prompt: int(n.prompt), Bytes: int(n.bytes),
		Flow: n.flow, Epoch: n.epoch, Turns: n.turns, IdleSince: n.rest, Marks: n.marks, Leader: n.leader,
		Last: t.origin.Add(n.last),
	}
}

// Put adds or updates a conversation and restarts its life. It drops a few expired entries, oldest first, and, if the
// table is full, evicts the least recently used one of the owner that has the most. If only the hash of its name is
// known, the first name with that hash that is asked for becomes its name.
func (t *Table) Put(now time.Time, n *Name, e Entry) {
	at := t.clock(now)
	t.sweep(at, sweepPerPut)
	i := t.position(n)
	switch {
	case i == none:
	case t.expired(i, at):
		t.expire(i)
		i = none
	case !t.same(i, n):
		t.evict(i) // two conversations with one hash: the newer one stays
		i = none
	}
	if i == none {
		i = t.make(n.key)
	}
	if !t.hashOnly && !n.hashed && t.store.at(i).identity == "" {
		t.store.at(i).identity = n.keep()
	}
	n.at = i
	t.store.own(i, n.owner)
	t.write(i, &e, at)
}

// make takes a position for a conversation that is absent.
func (t *Table) make(key Key) int32 {
	for n := 0; n < evictPerPut && t.Len() >= t.max; n++ {
		t.evict(t.store.leastUsed())
	}
	i := t.store.take()
	t.store.at(i).key = key
	t.index.insert(key.lo, i)
	return i
}

// write replaces the Entry at a position and restarts its life.
func (t *Table) write(i int32, e *Entry, at time.Duration) {
	n := t.store.at(i)
	n.endpoint, n.model, n.tokens, n.epoch, n.turns, n.last = e.Endpoint, e.Model, e.Tokens, e.Epoch, e.Turns, at
	n.leader = e.Leader
	n.flow, n.rest, n.marks = e.Flow, e.IdleSince, e.Marks
	n.prompt, n.bytes = int32(min(e.Prompt, math.MaxInt32)), int32(min(e.Bytes, math.MaxInt32))
	t.store.moveToFront(byUse, i)
	t.store.moveToFront(byAge, i)
}

// Revise changes a conversation by f. If f returns true, the entry that it returns is written as by Put. Revise reports
// whether the conversation was found.
func (t *Table) Revise(now time.Time, n *Name, f func(Entry) (Entry, bool)) bool {
	i, at := t.find(n), t.peekClock(now)
	if i == none || t.expired(i, at) {
		return false
	}
	if e, changed := f(t.entry(i)); changed {
		t.latest = at
		t.sweep(at, sweepPerPut) // drops expired entries, which this one is not
		t.write(i, &e, at)
	}
	return true
}

// Delete forgets a conversation. It reports whether there was an entry, expired or not.
func (t *Table) Delete(n *Name) bool {
	_, ok := t.Take(n)
	return ok
}

// Take forgets a conversation and returns its entry, expired or not.
func (t *Table) Take(n *Name) (e Entry, ok bool) {
	i := t.find(n)
	if i == none {
		return Entry{}, false
	}
	e = t.entry(i)
	t.remove(i)
	return e, true
}

// Len is the number of entries, including expired ones not yet dropped.
func (t *Table) Len() int { return t.index.used }

// Stats returns the counters.
func (t *Table) Stats() Stats { return t.stats }

// clock converts a time to its distance from the first one. Subtraction uses the monotonic reading if there is one, so
// that a change of the wall clock expires nothing.
func (t *Table) clock(now time.Time) time.Duration {
	if !t.began {
		t.began, t.origin = true, now
	}
	t.latest = max(t.latest, now.Sub(t.origin))
	return t.latest
}

// peekClock returns what clock would, and changes nothing.
func (t *Table) peekClock(now time.Time) time.Duration {
	if !t.began {
		return t.latest
	}
	return max(t.latest, now.Sub(t.origin))
}

// find is the position of a conversation, or none.
func (t *Table) find(n *Name) int32 {
	i := t.position(n)
	if i == none || !t.same(i, n) {
		return none
	}
	n.at = i
	return i
}

// position is that of the entry with the hash of a name, or none. It is mostly the one where the name was found last.
func (t *Table) position(n *Name) int32 {
	if n.at != none && n.at < t.store.used && t.store.at(n.at).key == n.key {
		return n.at
	}
	return t.keyed(n.key)
}

// keyed is the position of the entry with a key, or none.
func (t *Table) keyed(key Key) int32 {
	return t.index.find(key.lo, func(i int32) bool { return t.store.at(i).key == key })
}

// same reports whether the entry with the hash of a name is its own. Of some only the hash is known.
func (t *Table) same(i int32, n *Name) bool {
	identity := t.store.at(i).identity
	return t.hashOnly || n.hashed || identity == "" || n.is(identity)
}

func (t *Table) expired(i int32, at time.Duration) bool { return at-t.store.at(i).last >= t.ttl }

func (t *Table) sweep(at time.Duration, limit int) int {
	for done := range max(limit, 0) {
		i := t.store.oldest()
		if i == none || !t.expired(i, at) {
			return done
		}
		t.expire(i)
	}
	return max(limit, 0)
}

func (t *Table) expire(i int32) {
	t.drop(i)
	t.stats.Expirations++
}

func (t *Table) evict(i int32) {
	t.drop(i)
	t.stats.Evictions++
}

func (t *Table) drop(i int32) {
	e := t.entry(i)
	t.remove(i)
	if t.dropped != nil {
		t.dropped(e)
	}
}

func (t *Table) remove(i int32) {
	t.index.remove(t.store.at(i).key.lo, i)
	t.store.free(i)
}
