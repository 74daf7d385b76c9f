package session

import "time"

// A walk visits all entries, oldest first, a few per call, while the memory changes in between. It remembers the entry
// visited last; an entry that is used meanwhile moves ahead of it and is visited again. Each memory has one walk at a
// time.

// Kept is a conversation as a walk returns it: by the hash of its name.
type Kept struct {
	Key   Key
	Entry Entry
	Age   time.Duration // since it was last written
}

// Rewind begins a walk.
func (t *Table) Rewind() { t.store.walked = none }

// Next appends up to n further conversations that have not expired, oldest write first. more is false at the end.
func (t *Table) Next(now time.Time, n int, to []Kept) (out []Kept, more bool) {
	at := t.peekClock(now)
	for range n {
		i := t.store.at(t.store.walked).links[byAge].newer
		if i == none {
			return to, false
		}
		t.store.walked = i
		if !t.expired(i, at) {
			to = append(to, Kept{t.store.at(i).key, t.entry(i), at - t.store.at(i).last})
		}
	}
	return to, true
}

// Restore stores an entry of a walk with its age, unless the conversation was written here since. Entries of one walk
// are restored in its order.
func (t *Table) Restore(now time.Time, k *Kept) {
	if k.Age < 0 || k.Age >= t.ttl {
		return
	}
	at := t.clock(now)
	last := at - k.Age
	i, e := t.keyed(k.Key), k.Entry
	switch {
	case i == none:
		t.sweep(at, sweepPerPut)
		i = t.make(k.Key)
	case t.store.at(i).last > last:
		return
	case t.store.at(i).endpoint == e.Endpoint:
		e.IdleSince = t.store.at(i).rest
	}
	t.write(i, &e, last)
}

// rewind begins a walk of an lru.
func (l *lru[V]) rewind() { l.walked = none }

// next calls f for up to n further values, least recently used first. It returns false at the end.
func (l *lru[V]) next(n int, f func(key uint64, v *V)) bool {
	for range n {
		i := l.at(l.walked).prev
		if i == none {
			return false
		}
		l.walked = i
		f(l.at(i).key, &l.at(i).value)
	}
	return true
}

// End is the end of one prompt as a walk returns it.
type End struct {
	Key, Main uint64 // one of its hashes, and the most specific one
	ID        string // of its conversation
	Answer    bool   // it is the answer with which a conversation went on
	Extended  bool   // a later prompt went on from it
	Repeated  bool   // the same prompt came again before
	Shared    bool   // prompts of several conversations end so
}

// Tail says where prompts ended after a block of plain text.
type Tail struct {
	Key  uint64    // hash of all text up to the end of the block
	Mask [2]uint64 // one bit for each number of bytes after it, from 0 to TrailBlock-1
}

// Rewind begins a walk.
func (t *Trails) Rewind() {
	t.ends.rewind()
	t.tails.rewind()
}

// NextEnds appends up to n further ends of the walk.
func (t *Trails) NextEnds(n int, to []End) (out []End, more bool) {
	more = t.ends.next(n, func(key uint64, e *end) {
		to = append(to, End{key, e.main, e.id, e.answer, e.extended, e.repeated, e.shared})
	})
	return to, more
}

// NextTails appends up to n further tails of the walk.
func (t *Trails) NextTails(n int, to []Tail) (out []Tail, more bool) {
	more = t.tails.next(n, func(key uint64, mask *[2]uint64) { to = append(to, Tail{key, *mask}) })
	return to, more
}

// RestoreEnd stores an end.
func (t *Trails) RestoreEnd(e *End) {
	t.ends.put(e.Key, end{e.ID, e.Main, e.Answer, e.Extended, e.Repeated, e.Shared})
}

// RestoreTail stores a tail.
func (t *Trails) RestoreTail(tail *Tail) {
	mask := t.tails.get(tail.Key)
	if mask == nil {
		mask = t.tails.enter(tail.Key, [2]uint64{})
	}
	mask[0] |= tail.Mask[0]
	mask[1] |= tail.Mask[1]
}

// User is a user as a walk returns it.
type User struct {
	Key  uint64
	ID   string        // of the conversation
	Age  time.Duration // since it was last seen
	Said bool          // the conversation is recognised by its content
	Many bool          // there are several: the user identifies none
}

// Rewind begins a walk.
func (u *Users) Rewind() { u.known.rewind() }

// Next appends up to n further users of the walk.
func (u *Users) Next(now time.Time, n int, to []User) (out []User, more bool) {
	more = u.known.next(n, func(key uint64, e *user) {
		to = append(to, User{key, e.id, max(0, now.Sub(e.last)), e.said, e.many})
	})
	return to, more
}

// Restore stores a user without running requests, unless it was seen here.
func (u *Users) Restore(now time.Time, k *User) {
	if u.known.find(k.Key) == none {
		u.known.put(k.Key, user{id: k.ID, last: now.Add(-k.Age), said: k.Said, many: k.Many})
	}
}

// SeenID is an id of Seen as a walk returns it.
type SeenID struct {
	Key   uint64 // Key.Uint64 of the conversation
	Twice bool   // requested more than once
}

// Rewind begins a walk.
func (s *Seen) Rewind() { s.ids.rewind() }

// Next appends up to n further ids of the walk.
func (s *Seen) Next(n int, to []SeenID) (out []SeenID, more bool) {
	more = s.ids.next(n, func(key uint64, twice *bool) { to = append(to, SeenID{key, *twice}) })
	return to, more
}

// Restore stores an id.
func (s *Seen) Restore(id SeenID) { s.ids.put(id.Key, id.Twice) }
