// Package explain answers why: it keeps the newest decisions with all that they were made of and what became of them,
// tells them in words, shows them to people, serves them to the admin listener and writes them to a file, one JSON
// object a line. It never holds prompt text.
package explain

import (
	"sync"
	"unsafe"

	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

// Config bounds what is kept. Zero means the default named at each field.
type Config struct {
	Keep      int   // decisions, and a quarter as many refusals; default 1,000
	KeepBytes int64 // memory for all; default 16 MiB
	HashIDs   bool  // keep a hash of a conversation's id in place of the id
}

const (
	defaultKeep      = 1000
	defaultKeepBytes = 16 << 20
)

func (c Config) withDefaults() Config {
	if c.Keep <= 0 {
		c.Keep = defaultKeep
	}
	if c.KeepBytes <= 0 {
		c.KeepBytes = defaultKeepBytes
	}
	c.Keep = max(1, min(c.Keep, int(c.KeepBytes/int64(unsafe.Sizeof(record{})))))
	return c
}

// Ring keeps the newest decisions that have ended, and apart from them the newest requests that the router refused, so
// that a flood of refusals leaves the decisions. A decision enters inside the fleet's lock: entering one copies into
// memory that an older one has left, and readers hold the ring for one record at a time.
type Ring struct {
	cfg Config

	mu        sync.Mutex // guards all below
	decisions shelf
	refusals  shelf
	next      uint64 // number of the next record of both; the first is 1
	wake      chan struct{}
}

// NewRing makes an empty ring.
func NewRing(c Config) *Ring {
	c = c.withDefaults()
	bytes := c.KeepBytes / refusalBytes
	return &Ring{
		cfg: c, next: 1, wake: make(chan struct{}, 1),
		decisions: shelf{keep: c.Keep, keepBytes: c.KeepBytes - bytes},
		refusals:  shelf{keep: max(1, c.Keep/refusalShare), keepBytes: bytes},
	}
}

// Shares of the refusals: one for four decisions, which have up to 16 candidates each, in an eighth of the memory.
const (
	refusalShare = 4
	refusalBytes = 8
)

// Listener is what the fleet calls.
func (r *Ring) Listener() live.Listener {
	return live.Listener{
		Entry: func(e *route.Entry) {
			if e.Ended != nil {
				r.add(&r.decisions, func(to *record) { to.ended(e, r.cfg.HashIDs) })
			}
		},
		Served: func(s *live.Served) {
			// a stray path is no request for an engine; it is in the access log
			if s.Refused && (s.API != "other" || s.Limit != "") {
				r.add(&r.refusals, func(to *record) { to.refused(s, r.cfg.HashIDs) })
			}
		},
	}
}

func (r *Ring) add(to *shelf, fill func(*record)) {
	r.mu.Lock()
	to.add(r.next, fill)
	r.next++
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// before copies the newest record with a number below this one; false when none is kept.
func (r *Ring) before(number uint64, into *record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var newest *record
	for _, s := range []*shelf{&r.decisions, &r.refusals} {
		if at := s.search(number); at > s.first {
			if d := s.at(at - 1); newest == nil || d.number > newest.number {
				newest = d
			}
		}
	}
	if newest == nil {
		return false
	}
	into.copy(newest)
	return true
}

// from copies the oldest record with at least this number; false when none is kept.
func (r *Ring) from(number uint64, into *record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var oldest *record
	for _, s := range []*shelf{&r.decisions, &r.refusals} {
		if at := s.search(number); at < s.next {
			if d := s.at(at); oldest == nil || d.number < oldest.number {
				oldest = d
			}
		}
	}
	if oldest == nil {
		return false
	}
	into.copy(oldest)
	return true
}

// count is how many records are kept, how many of them have at least this number, and the number of the next one.
func (r *Ring) count(number uint64) (kept, from, next uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range []*shelf{&r.decisions, &r.refusals} {
		kept += s.next - s.first
		from += s.next - s.search(number)
	}
	return kept, from, r.next
}
