package backlog

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// link models the transfers to one decoder that share its bandwidth: each gets an equal part, as TCP and the queue
// pairs of an RDMA port do. Bandwidth of prefillers is not modelled.
type link struct {
	at   time.Time // up to when it is accounted
	area float64   // running transfers, integrated over ms
}

// advanceLink accounts for the time since the last call. Call it before a transfer begins or ends.
func (t *Table) advanceLink(now time.Time, e *endpoint, slot int, rates Rates) {
	if fleet.Ms(now.Sub(e.link.at)) <= 0 {
		return
	}
	each, area := 0.0, 0.0
	if len(e.pendingTransfers) > 0 {
		each, area = t.linkProgress(now, e, rates.Transfer(now, slot).MsPerToken)
	}
	e.link.at = now
	e.link.area += area
	for _, n := range e.pendingTransfers {
		if j := t.jobs.Get(int(n)); j.inTransfer() {
			j.transferLeft = max(0, j.transferLeft-each)
		}
	}
}

// linkProgress is how many tokens of each transfer the link has carried since link.at, and the number of running
// transfers integrated over ms. It changes nothing.
func (t *Table) linkProgress(now time.Time, e *endpoint, perToken float64) (each, area float64) {
	for dt := fleet.Ms(now.Sub(e.link.at)); dt > 0; {
		n, next := 0, -1.0 // running transfers, and the tokens left of the first that may end within dt
		for _, k := range e.pendingTransfers {
			j := t.jobs.Get(int(k))
			if !j.inTransfer() || !j.Stream && j.transferLeft <= each {
				continue
			}
			if n++; !j.Stream && (next < 0 || j.transferLeft-each < next) {
				next = j.transferLeft - each
			}
		}
		if n == 0 {
			break
		}
		step := float64(float64(next*perToken) * float64(n))
		if next < 0 || step > dt {
			step, next = dt, dt/float64(perToken*float64(n))
		}
		each += next
		area += float64(step * float64(n))
		dt -= step
	}
	return each, area
}

// inTransfer reports whether KV cache of a decode leg is in transfer: until its first byte, or, for a non-streamed
// answer, until all is expected to have arrived.
func (j *Job) inTransfer() bool {
	return !j.Handed.IsZero() && j.Transfer > 0 && (j.Stream || j.transferLeft > 0)
}

// transferArrived removes a decode leg from the pending transfers and from the link. Until then it occupies no slot,
// and whole requests cannot use its blocks.
func (t *Table) transferArrived(now time.Time, e *endpoint, slot int, n uint32, rates Rates) {
	t.advanceLink(now, e, slot, rates)
	if i := slices.Index(e.pendingTransfers, n); i >= 0 {
		e.pendingTransfers = slices.Delete(e.pendingTransfers, i, i+1)
	}
}

// LinkMs is the extra ms from link sharing if a transfer of this many tokens starts in `in` ms, for it and for the
// others: while two overlap, each has half the bandwidth.
func (r Reader) LinkMs(now time.Time, slot int, pace Transfer, tokens, in float64) float64 {
	t, e := r.t, r.t.endpoints.Get(slot)
	if len(e.pendingTransfers) == 0 {
		return 0
	}
	each, _ := t.linkProgress(now, e, pace.MsPerToken)
	n := 0
	for _, k := range e.pendingTransfers {
		if j := t.jobs.Get(int(k)); j.inTransfer() && (j.Stream || j.transferLeft > each) {
			n++
		}
	}
	gone := in / float64(pace.MsPerToken*float64(max(n, 1))) // tokens of each moved by then
	begins := now.Add(duration(in))
	sum := 0.0
	for _, k := range e.pendingTransfers {
		j := t.jobs.Get(int(k))
		left := float64(j.Transfer)
		switch {
		case !j.Handed.IsZero():
			left = j.transferLeft - each - gone
		case j.due.After(begins):
			continue
		}
		sum += min(max(left, 0), tokens)
	}
	return float64(sum * pace.MsPerToken)
}
