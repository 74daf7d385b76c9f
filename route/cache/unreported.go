package cache

import (
	"time"

	"github.com/warmpath/warmpath/route/cache/reported"
)

// unreported is the prompts that an endpoint has just computed. Their blocks are in the cache, and the events that say so are still to come:
// at once where an engine reports by itself, at the next question where it has to be asked.
type unreported struct {
	ring []prompt
	next int // the oldest
}

type prompt struct {
	chain []uint64 // the router's own blocks of it
	at    time.Time
}

const mostUnreported = 32 // of an endpoint; the newest

// add notes a prompt.
func (r *unreported) add(now time.Time, chain []uint64) {
	if len(r.ring) < mostUnreported {
		r.ring = append(r.ring, prompt{})
	}
	u := &r.ring[r.next%len(r.ring)]
	r.next = (r.next + 1) % mostUnreported
	if cap(u.chain) > mostKept {
		u.chain = nil
	}
	u.chain, u.at = append(u.chain[:0], chain...), now
}

// reported forgets the prompts whose events have come: all that was computed before the engine was asked. An engine that reports by
// itself, of which asked is zero, does so before it gives the first token.
func (r *unreported) reported(now, asked time.Time) {
	if asked.IsZero() {
		asked = now
	}
	for i := range r.ring {
		if u := &r.ring[i]; !u.at.After(asked) {
			u.chain = u.chain[:0]
		}
	}
}

// common is how many blocks of a prompt, from the first on, one of them has where these are more than n, else n.
func (r *unreported) common(now time.Time, keys []uint64, n int) int {
	for i := range r.ring {
		if u := &r.ring[i]; now.Sub(u.at) < reported.Overdue {
			n = commonBeyond(keys, u.chain, n)
		}
	}
	return n
}
