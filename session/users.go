package session

import "time"

// Users tells ids of users that stand for one conversation from those that stand for many. A user is weak evidence: it is
// asked only when a request neither names its conversation nor says enough to be recognised, and it counts only as long
// as nothing shows that its user has more than one conversation at a time. From then on it stands for nobody, until it
// has not been seen for Config.IdleTTL. What shows it:
//
//   - a request in its name while another one is open,
//   - two conversations in its name that were told apart by what they say,
//   - one such conversation, and a request that says too little to be part of it.
//
// It is bounded: the users least recently seen are forgotten. It starts no goroutine and serves one caller at a time.
type Users struct {
	known *lru[user]
	ttl   time.Duration
}

type user struct {
	id   string    // the conversation
	last time.Time // when it was last seen
	open int32     // requests of the conversation under way
	said bool      // the conversation is recognised by what it says
	many bool      // it stands for nobody
}

// NewUsers makes an empty memory of at most c.Max users.
func NewUsers(c Config) *Users {
	c = c.WithDefaults()
	return &Users{known: newLRU[user](c.Max), ttl: c.IdleTTL}
}

// Len is the number of users remembered.
func (u *Users) Len() int { return u.known.len() }

// seen is what is known of a user; nil for one that has not been seen for long. It is valid until the next change.
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

// Said notes a turn of a conversation that was recognised by what it says. key is KeyOf tenant, model and user.
func (u *Users) Said(now time.Time, key Key, id string) {
	switch e := u.seen(now, key); {
	case e == nil:
		u.known.put(key.Uint64(), user{id: id, last: now, said: true})
	case e.id != id:
		e.many = true
	}
}

// Claim finds the conversation of a request that nothing but its user tells about. It is the fresh id, and known false, when the
// user is new or stands for nobody. Each Claim that was accepted is opened by Begin.
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

// Of is what Claim would answer. It changes nothing.
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

// Begin notes that a request in the user's name is under way, End that it is over.
func (u *Users) Begin(key Key) {
	if e := u.known.get(key.Uint64()); e != nil {
		e.open++
	}
}

// End is told at now.
func (u *Users) End(now time.Time, key Key) {
	if e := u.known.get(key.Uint64()); e != nil && e.open > 0 {
		e.open--
		if now.After(e.last) {
			e.last = now
		}
	}
}
