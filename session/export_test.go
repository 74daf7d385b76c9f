package session

import "time"

// Sweep drops up to limit expired entries, oldest first, and returns how many it dropped.
func (t *Table) Sweep(now time.Time, limit int) int { return t.sweep(t.clock(now), limit) }

func (l *lru[V]) len() int { return l.index.used }

// Len is the number of ids remembered.
func (s *Seen) Len() int { return s.ids.len() }

// Len is the number of ends remembered; a turn of a chat has three or four.
func (t *Trails) Len() int { return t.ends.len() }

// Len is the number of users remembered.
func (u *Users) Len() int { return u.known.len() }

// name is NameOf, for calls.
func name(tenant, model, id string) *Name {
	n := NameOf(tenant, model, id)
	return &n
}
