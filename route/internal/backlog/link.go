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
func (t *Table) advanceLink(now time.Time, e *endpoint) {
	if fleet.Ms(now.Sub(e.link.at)) <= 0 {
		return
	}
	each, area := 0.0, 0.0
	if len(e.pendingTransfers) > 0 {
		each, area = t.linkProgress(now, e, t.rates.Transfer(now, e.slot).MsPerToken)
	}
	e.link.at = now
	e.link.area += area
	for i := range e.pendingTransfers {
		if p := &e.pendingTransfers[i]; p.runs() {
			p.left = max(0, p.left-each)
		}
	}
}

// linkProgress is how many tokens of each transfer the link has carried since link.at, and the number of running
// transfers integrated over ms. It changes nothing. There may be thousands of transfers, so it does not look through
// them for each one that has ended.
func (t *Table) linkProgress(now time.Time, e *endpoint, perToken float64) (each, area float64) {
	streams, ends := 0, t.ends[:0] // the tokens left of the others, the fewest first
	for i := range e.pendingTransfers {
		switch p := &e.pendingTransfers[i]; {
		case !p.runs():
		case p.stream:
			streams++
		default:
			ends = append(ends, p.left)
		}
	}
	slices.Sort(ends)
	t.ends = ends
	for dt := fleet.Ms(now.Sub(e.link.at)); dt > 0; {
		for len(ends) > 0 && ends[0] <= each {
			ends = ends[1:]
		}
		n := streams + len(ends) // running transfers
		if n == 0 {
			break
		}
		next, step := 0.0, dt
		if len(ends) > 0 {
			next = ends[0] - each
			step = float64(float64(next*perToken) * float64(n))
		}
		if len(ends) == 0 || step > dt {
			step, next = dt, dt/float64(perToken*float64(n))
		}
		each += next
		area += float64(step * float64(n))
		dt -= step
	}
	return each, area
}

// pending is a decode leg whose KV cache has not arrived. It has what is asked for at each decision: those of a decoder
// lie beside each other, jobs do not.
type pending struct {
	job    uint32
	stream bool
	begun  bool
	tokens float64   // to be transferred
	left   float64   // not yet moved, once it has begun
	due    time.Time // when its prompt is expected to be computed
}

// runs reports whether it is in transfer: until its first byte, or, for a non-streamed answer, until all is expected to
// have arrived.
func (p *pending) runs() bool { return p.begun && p.tokens > 0 && (p.stream || p.left > 0) }

// transferArrived removes a decode leg from the pending transfers and from the link. Until then it occupies no slot,
// and whole requests cannot use its blocks.
func (t *Table) transferArrived(now time.Time, e *endpoint, j *Job) {
	t.advanceLink(now, e)
	e.pendingTransfers = slices.DeleteFunc(e.pendingTransfers, func(p pending) bool { return p.job == j.n })
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
	for i := range e.pendingTransfers {
		if p := &e.pendingTransfers[i]; p.runs() && (p.stream || p.left > each) {
			n++
		}
	}
	gone := in / float64(pace.MsPerToken*float64(max(n, 1))) // tokens of each moved by then
	begins := now.Add(fleet.Duration(in))
	sum := 0.0
	for i := range e.pendingTransfers {
		p := &e.pendingTransfers[i]
		left := p.tokens
		switch {
		case p.begun:
			left = p.left - each - gone
		case p.due.After(begins):
			continue
		}
		sum += min(max(left, 0), tokens)
	}
	return float64(sum * pace.MsPerToken)
}
