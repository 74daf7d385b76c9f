// Package budget bounds retries to a share of the traffic, so that requests that fail everywhere do not multiply the
// load.
//
// It owns the counts of requests and retries of the last minute and decides whether one more retry is allowed, not
// whether a request deserves one.
package budget

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

const steps = 12 // of a minute

// Budget counts requests and their retries of the last minute, in steps of five seconds.
type Budget struct {
	Reader
	share   float64   // retries allowed, as a share of the requests of the last minute
	floor   int       // retries always allowed per minute
	began   time.Time // of slot 0: the first request. Zero before it
	latest  int64     // number of the latest slot
	counts  [steps]count
	refused uint64
}

type count struct{ requests, retries int }

// New makes an unused budget. It allows as many retries a minute as a share of its requests, and floor at least.
func New(share float64, floor int) *Budget {
	b := &Budget{}
	b.Reader = Reader{b}
	b.SetSize(share, floor)
	return b
}

// SetSize replaces the budget's size. What was counted stays.
func (b *Budget) SetSize(share float64, floor int) { b.share, b.floor = max(0, share), max(0, floor) }

// Reader is a read-only view of a Budget.
type Reader struct{ b *Budget }

// Allows reports whether the budget has room for the request. First attempts always pass.
func (r Reader) Allows(now time.Time, req *fleet.Request) bool {
	if !req.Again {
		return true
	}
	sum := r.b.sum(now)
	return sum.retries < max(r.b.floor, int(r.b.share*float64(sum.requests)))
}

// sum is what was counted in the last minute.
func (b *Budget) sum(now time.Time) (sum count) {
	oldest := max(b.number(now), b.latest) - steps + 1
	for n := max(oldest, b.latest-steps+1); n <= b.latest; n++ {
		c := b.counts[index(n)]
		sum.requests += c.requests
		sum.retries += c.retries
	}
	return sum
}

// Refuse counts a retry that was not allowed.
func (b *Budget) Refuse() { b.refused++ }

// Refused is the number of retries that were not allowed.
func (b *Budget) Refused() uint64 { return b.refused }

// Enter counts a placed request: a retry or a first attempt.
func (b *Budget) Enter(now time.Time, req *fleet.Request) {
	retry := req.Again
	first := req.Leg == fleet.LegUnsplit && req.Instead == 0 && len(req.Tried)+len(req.TriedPrefill) == 0
	if !retry && !first {
		return
	}
	if b.began.IsZero() {
		b.began = now
	}
	b.advance(now)
	c := &b.counts[index(b.latest)]
	if retry {
		c.retries++
	} else {
		c.requests++
	}
}

// advance drops counts older than a minute.
func (b *Budget) advance(now time.Time) {
	n := b.number(now)
	if n-b.latest >= steps {
		b.counts, b.latest = [steps]count{}, n
		return
	}
	for b.latest < n {
		b.latest++
		b.counts[index(b.latest)] = count{}
	}
}

// number is the slot of a moment. It does not go by the clock of the wall, which may be set.
func (b *Budget) number(t time.Time) int64 { return int64(t.Sub(b.began) / (time.Minute / steps)) }

func index(n int64) int { return int((n%steps + steps) % steps) }
