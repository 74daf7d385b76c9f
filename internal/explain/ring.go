// Package explain answers why: it keeps the newest decisions with all that they were made of and what became of them, tells
// them in words, shows them to people, serves them to the admin listener and writes them to a file, one JSON object a line. It
// never holds prompt text.
package explain

import (
	"sync"
	"unsafe"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// Config bounds what is kept. Zero means the default named at each field.
type Config struct {
	Keep      int   // decisions; default 1,000
	KeepBytes int64 // memory for them; default 16 MiB
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

// Ring keeps the newest decisions that have ended. A decision enters it inside the fleet's lock, so entering one copies
// into memory that an older one has left, and readers hold the ring for one decision at a time.
type Ring struct {
	cfg Config

	mu    sync.Mutex // guards all below
	slots []record   // decision number n is at n modulo len(slots); grows up to Config.Keep
	first uint64     // the oldest that is kept
	next  uint64     // the number that the next decision gets; the first is 1
	bytes int64      // of what is kept
	wake  chan struct{}
}

// NewRing makes an empty ring.
func NewRing(c Config) *Ring {
	return &Ring{cfg: c.withDefaults(), first: 1, next: 1, wake: make(chan struct{}, 1)}
}

// Listener is what the fleet calls.
func (r *Ring) Listener() live.Listener {
	return live.Listener{Entry: func(e *route.Entry) {
		switch {
		case e.Ended != nil:
			r.add(func(to *record) { to.ended(e, r.cfg.HashIDs) })
		case e.Err != nil && e.Request != nil && e.Request.Leg == fleet.LegWhole: // who finds no other endpoint for one leg has other ways left
			r.add(func(to *record) { to.refused(e, r.cfg.HashIDs) })
		}
	}}
}

// add enters a decision, and lets go of the oldest where the bounds ask for it.
func (r *Ring) add(fill func(*record)) {
	r.mu.Lock()
	if len(r.slots) < r.cfg.Keep { // nothing has been let go of for want of places, so that number n is at n-1
		r.slots = append(r.slots, record{})
	} else if r.next-r.first == uint64(len(r.slots)) {
		r.bytes -= r.at(r.first).size()
		r.first++
	}
	slot := r.at(r.next)
	fill(slot)
	slot.number = r.next
	r.next++
	r.bytes += slot.size()
	for r.bytes > r.cfg.KeepBytes && r.first < r.next {
		oldest := r.at(r.first)
		r.bytes -= oldest.size()
		*oldest = record{}
		r.first++
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Ring) at(number uint64) *record { return &r.slots[(number-1)%uint64(r.cfg.Keep)] }

// span is the numbers of the decisions that are kept: from first up to, but not including, next.
func (r *Ring) span() (first, next uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first, r.next
}

// read copies a decision; false when it is not kept, or not wanted.
func (r *Ring) read(number uint64, into *record, wanted func(*record) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number < r.first || number >= r.next {
		return false
	}
	from := r.at(number)
	if wanted != nil && !wanted(from) {
		return false
	}
	into.copy(from)
	return true
}

// size is the memory of a record and of what it points to.
func (d *record) size() int64 {
	return int64(unsafe.Sizeof(*d)) + int64(cap(d.text)) + int64(cap(d.candidates))*int64(unsafe.Sizeof(pick.Candidate{}))
}
