package session

import (
	"math"
	"time"
)

// sweepPerPut is how many expired entries one Put drops at most. Above one, so that the table shrinks when traffic
// does; small, so that a Put after a long silence costs no more than another.
const sweepPerPut = 4

// Table remembers conversations. It serves one caller at a time.
type Table struct {
	max      int
	ttl      time.Duration
	hashOnly bool

	index index // of the entries' places in store
	store store

	began  bool
	origin time.Time     // the first time handed in; all others are kept as their distance from it
	latest time.Duration // the latest time handed in: a clock that steps back is taken to stand still
	stats  Stats
}

// New makes an empty table. It panics when c is not valid.
func New(c Config) *Table {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	c = c.WithDefaults()
	t := &Table{max: c.Max, ttl: c.IdleTTL, hashOnly: c.HashOnly, store: newStore()}
	t.index = newIndex(c.Max, func(i int32) uint64 { return t.store.at(i).key.lo })
	return t
}

// Get finds a conversation. It counts as a use for eviction and does not extend the entry's life. An expired entry is
// dropped and reported as absent.
func (t *Table) Get(now time.Time, tenant, model, id string) (Entry, bool) {
	var room [nameRoom]byte
	name := appendName(room[:0], tenant, model, id)
	at := t.clock(now)
	i, ok := t.find(hash(name), name)
	if ok && t.expired(i, at) {
		t.expire(i)
		ok = false
	}
	if !ok {
		t.stats.Misses++
		return Entry{}, false
	}
	t.stats.Hits++
	t.store.moveToFront(byUse, i)
	return t.entry(i), true
}

// Peek finds a conversation as Get does and changes nothing: it is no use of it, and an expired entry stays where it is.
func (t *Table) Peek(now time.Time, tenant, model, id string) (Entry, bool) {
	var room [nameRoom]byte
	name := appendName(room[:0], tenant, model, id)
	at := t.latest
	if t.began {
		at = max(at, now.Sub(t.origin))
	}
	i, ok := t.find(hash(name), name)
	if !ok || t.expired(i, at) {
		return Entry{}, false
	}
	return t.entry(i), true
}

// entry is what is remembered at a place.
func (t *Table) entry(i int32) Entry {
	n := t.store.at(i)
	return Entry{Endpoint: n.endpoint, Model: n.model, Tokens: n.tokens, Prompt: int(n.prompt), Bytes: int(n.bytes), Flow: n.flow, Epoch: n.epoch, Turns: n.turns, Rest: n.rest, Leader: n.leader, Last: t.origin.Add(n.last)}
}

// Put remembers or updates a conversation and restarts its life. It drops at most a few expired entries, oldest
// first, and when the table is still full, the least recently used one.
func (t *Table) Put(now time.Time, tenant, model, id string, e Entry) {
	var room [nameRoom]byte
	name := appendName(room[:0], tenant, model, id)
	at := t.clock(now)
	t.sweep(at, sweepPerPut)
	key := hash(name)
	i := t.held(key)
	if i != none && !t.same(i, name) {
		t.remove(i) // one of two conversations with one hash; the newer one stays
		t.stats.Evictions++
		i = none
	}
	if i == none {
		if t.Len() >= t.max {
			t.remove(t.store.oldest(byUse))
			t.stats.Evictions++
		}
		i = t.store.take()
		t.store.at(i).key = key
		if !t.hashOnly {
			t.store.at(i).identity = keep(name)
		}
		t.index.insert(key.lo, i)
	}
	n := t.store.at(i)
	n.endpoint, n.model, n.tokens, n.epoch, n.turns, n.last = e.Endpoint, e.Model, e.Tokens, e.Epoch, e.Turns, at
	n.leader = e.Leader
	n.flow, n.rest = e.Flow, e.Rest
	n.prompt, n.bytes = int32(min(e.Prompt, math.MaxInt32)), int32(min(e.Bytes, math.MaxInt32))
	t.store.moveToFront(byUse, i)
	t.store.moveToFront(byAge, i)
}

// Touch restarts the life of a conversation and counts as a use. It reports whether the conversation is remembered.
func (t *Table) Touch(now time.Time, tenant, model, id string) bool {
	var room [nameRoom]byte
	name := appendName(room[:0], tenant, model, id)
	at := t.clock(now)
	i, ok := t.find(hash(name), name)
	if !ok {
		return false
	}
	if t.expired(i, at) {
		t.expire(i)
		return false
	}
	t.store.at(i).last = at
	t.store.moveToFront(byUse, i)
	t.store.moveToFront(byAge, i)
	return true
}

// Delete forgets a conversation. It reports whether there was an entry, expired or not.
func (t *Table) Delete(tenant, model, id string) bool {
	var room [nameRoom]byte
	name := appendName(room[:0], tenant, model, id)
	i, ok := t.find(hash(name), name)
	if ok {
		t.remove(i)
	}
	return ok
}

// Sweep drops up to limit expired entries, oldest first, and returns how many it dropped.
func (t *Table) Sweep(now time.Time, limit int) int { return t.sweep(t.clock(now), limit) }

// Len is the number of entries held, including expired ones that were not yet dropped.
func (t *Table) Len() int { return t.index.used }

// Stats is a snapshot of the counters.
func (t *Table) Stats() Stats { return t.stats }

// clock turns a time into its distance from the first one. Subtraction uses the monotonic reading where there is one,
// so that a stepped wall clock expires nobody.
func (t *Table) clock(now time.Time) time.Duration {
	if !t.began {
		t.began, t.origin = true, now
	}
	t.latest = max(t.latest, now.Sub(t.origin))
	return t.latest
}

func (t *Table) find(key Key, name []byte) (int32, bool) {
	i := t.held(key)
	return i, i != none && t.same(i, name)
}

// held is the place of the entry with a key, none when there is none.
func (t *Table) held(key Key) int32 {
	return t.index.find(key.lo, func(i int32) bool { return t.store.at(i).key == key })
}

func (t *Table) same(i int32, name []byte) bool {
	return t.hashOnly || kept(t.store.at(i).identity, name)
}

func (t *Table) expired(i int32, at time.Duration) bool { return at-t.store.at(i).last >= t.ttl }

func (t *Table) sweep(at time.Duration, limit int) int {
	for done := range max(limit, 0) {
		i := t.store.oldest(byAge)
		if i == none || !t.expired(i, at) {
			return done
		}
		t.expire(i)
	}
	return max(limit, 0)
}

func (t *Table) expire(i int32) {
	t.remove(i)
	t.stats.Expirations++
}

func (t *Table) remove(i int32) {
	t.index.remove(t.store.at(i).key.lo, i)
	t.store.free(i)
}
