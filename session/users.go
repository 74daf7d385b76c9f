package session

import "time"

// Users tells user ids with one conversation from those with many. A user id is weak evidence: it is used only when a
// request neither names its conversation nor can be recognised by content, and only while nothing shows that the user
// has several conversations at a time. Afterwards the id identifies nothing until it has not been seen for
// Config.IdleTTL. Evidence of several conversations:
//
//   - a request of the user while another one is open,
//   - two conversations of the user that were told apart by content,
//   - one such conversation, and a request too short to be recognised.
//
// It is bounded: the least recently seen users are forgotten. It starts no goroutine and is not safe for concurrent
// use.
type Users struct {
	known *lru[user]
	ttl   time.Duration
}

type user struct {
	id   string    // the conversation
	last time.Time // when it was last seen
	open int32     // running requests of the conversation
	said bool      // the conversation is recognised by content
	many bool      // several conversations: it identifies none
}

// NewUsers returns an empty memory of at most c.Max users.
func NewUsers(c Config) *Users {
	c = c.WithDefaults()
	return &Users{known: newLRU[user](c.Max), ttl: c.IdleTTL}
}

// SetConfig replaces the bounds. A larger memory keeps its size.
func (u *Users) SetConfig(c Config) {
	c = c.WithDefaults()
	u.known.setMost(c.Max)
	u.ttl = c.IdleTTL
}

// seen returns a user, or nil if it expired or is unknown. It is valid until the next change.
func (u *Users) seen(now time.Time, key Key) *user {
	e := u.known.get(key.Uint64())
	if e == nil || e.open == 0 && now.Sub(e.last) >= u.ttl {
		return nil
	}
	if now.After(e.last) {
		e.last = now
	}
	return e
}

// Said notes a turn of a conversation recognised by content. key is KeyOf tenant, model and user.
func (u *Users) Said(now time.Time, key Key, id string) {
	switch e := u.seen(now, key); {
	case e == nil:
		u.known.put(key.Uint64(), user{id: id, last: now, said: true})
	case e.id != id:
		e.many = true
	}
}

// Claim returns the conversation of a request that only its user identifies. It returns the fresh id, and known false,
// when the user is new or has several conversations. Begin opens each accepted Claim.
func (u *Users) Claim(now time.Time, key Key, fresh string) (id string, known bool) {
	e := u.seen(now, key)
	if e == nil {
		u.known.put(key.Uint64(), user{id: fresh, last: now})
		return fresh, false
	}
	if e.many = e.many || e.said || e.open > 0; e.many {
		return fresh, false
	}
	return e.id, true
}

// Of returns what Claim would, and changes nothing.
func (u *Users) Of(now time.Time, key Key, fresh string) (id string, known bool) {
	i := u.known.find(key.Uint64())
	if i == none {
		return fresh, false
	}
	e := &u.known.at(i).value
	if e.open == 0 && now.Sub(e.last) >= u.ttl || e.many || e.said || e.open > 0 {
		return fresh, false
	}
	return e.id, true
}

// Begin notes that a request of the user has started.
func (u *Users) Begin(key Key) {
	if e := u.known.get(key.Uint64()); e != nil {
		e.open++
	}
}

// End notes that a request of the user has ended.
func (u *Users) End(now time.Time, key Key) {
	if e := u.known.get(key.Uint64()); e != nil && e.open > 0 {
		e.open--
		if now.After(e.last) {
			e.last = now
		}
	}
}
