package route

import (
	"errors"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// ErrRetryBudget says that a request may not be tried again now: too large a share of the traffic is retries already. The door passes on
// what the endpoint before answered.
var ErrRetryBudget = errors.New("the retry budget is used up")

const (
	retrySlots = 12
	retrySlot  = 5 * time.Second
)

// retries counts requests and their retries of the last minute, in slots of five seconds.
type retries struct {
	slot    int64 // the latest
	counts  [retrySlots]retryCount
	sum     retryCount
	refused uint64
	share   float64
	floor   int
}

type retryCount struct{ requests, retries int }

// newRetries makes the budget of a Config with its defaults.
func newRetries(c *Config) retries {
	return retries{share: max(0, c.RetryShare), floor: max(0, c.RetryFloor)}
}

// allow reports whether the budget has room for the request. What is no retry always has it.
func (b *retries) allow(now time.Time, req *fleet.Request) bool {
	if !req.Again {
		return true
	}
	b.advance(now)
	if b.sum.retries < max(b.floor, int(b.share*float64(b.sum.requests))) {
		return true
	}
	b.refused++
	return false
}

// enter counts a request that was given an endpoint: a retry, or one that comes for the first time.
func (b *retries) enter(now time.Time, req *fleet.Request) {
	var n retryCount
	switch {
	case req.Again:
		n.retries = 1
	case req.Leg == fleet.LegWhole && req.Instead == 0 && len(req.Tried) == 0 && len(req.TriedPrefill) == 0:
		n.requests = 1
	default:
		return
	}
	b.advance(now)
	b.add(&b.counts[b.index(b.slot)], n)
}

func (b *retries) add(to *retryCount, n retryCount) {
	to.requests += n.requests
	to.retries += n.retries
	b.sum.requests += n.requests
	b.sum.retries += n.retries
}

func (b *retries) index(slot int64) int { return int((slot%retrySlots + retrySlots) % retrySlots) }

// advance lets go of what is older than a minute. A clock that goes back changes nothing.
func (b *retries) advance(now time.Time) {
	slot := now.Unix() / int64(retrySlot/time.Second)
	if slot-b.slot >= retrySlots {
		b.counts, b.sum, b.slot = [retrySlots]retryCount{}, retryCount{}, slot
		return
	}
	for b.slot < slot {
		b.slot++
		c := &b.counts[b.index(b.slot)]
		b.add(c, retryCount{-c.requests, -c.retries})
	}
}
