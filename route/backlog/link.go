package backlog

import (
	"slices"
	"time"
)

// link is the transfers to one decoder while they share what its link carries, as far as the router can tell: each that is under way has an
// even part of it, as TCP and the queue pairs of an RDMA port have. What the links of prefillers carry is not counted.
type link struct {
	at   time.Time // up to when it is reckoned
	area float64   // transfers under way, times ms
}

// passes lets time go by on a decoder's link. It is to be called before a transfer begins or ends.
func (t *Table) passes(now time.Time, e *endpoint, slot int, rates Rates) {
	if Ms(now.Sub(e.link.at)) <= 0 {
		return
	}
	each, area := 0.0, 0.0
	if len(e.coming) > 0 {
		each, area = t.carried(now, e, rates.Transfer(now, slot).MsPerToken)
	}
	e.link.at = now
	e.link.area += area
	for _, n := range e.coming {
		if j := t.jobs.Get(int(n)); j.moves(e) {
			j.left = max(0, j.left-each)
		}
	}
}

// carried is how many tokens of each transfer the link has carried since it was last reckoned, and for how long, in ms times the transfers
// under way. It changes nothing.
func (t *Table) carried(now time.Time, e *endpoint, perToken float64) (each, area float64) {
	for dt := Ms(now.Sub(e.link.at)); dt > 0; {
		n, next := 0, -1.0 // under way, and tokens that the first of them has left that may be over before dt is
		for _, k := range e.coming {
			j := t.jobs.Get(int(k))
			if !j.moves(e) || !j.Stream && j.left <= each {
				continue
			}
			if n++; !j.Stream && (next < 0 || j.left-each < next) {
				next = j.left - each
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

// moves reports whether a decode leg that has not answered yet has KV cache under way: until its first byte, or, since an answer that comes as
// a whole has none before its end, until all is expected to have come.
func (j *Job) moves(e *endpoint) bool {
	return !j.Handed.IsZero() && j.Transfer > 0 && (j.Stream || j.left > 0) && j.incarnation == e.incarnation
}

// came takes a decode leg off the list of those whose KV cache is still to come, and off its endpoint's link. Until then it takes no place
// there, and a request that is served there as a whole cannot count on its blocks.
func (t *Table) came(now time.Time, e *endpoint, slot int, n uint32, rates Rates) {
	t.passes(now, e, slot, rates)
	if i := slices.Index(e.coming, n); i >= 0 {
		e.coming = slices.Delete(e.coming, i, i+1)
	}
}

// LinkMs is how many ms longer a transfer of so many tokens that begins in so many ms takes for the others that share the link with it, and
// they for it: until the shorter one of two is over each has half of what it would have.
func (r Reader) LinkMs(now time.Time, slot int, pace Transfer, tokens, in float64) float64 {
	t, e := r.t, r.t.endpoints.Get(slot)
	if !pace.Shares || len(e.coming) == 0 {
		return 0
	}
	each, _ := t.carried(now, e, pace.MsPerToken)
	n := 0
	for _, k := range e.coming {
		if j := t.jobs.Get(int(k)); j.moves(e) && (j.Stream || j.left > each) {
			n++
		}
	}
	gone := in / float64(pace.MsPerToken*float64(max(n, 1))) // of each by then
	begins := now.Add(duration(in))
	sum := 0.0
	for _, k := range e.coming {
		j := t.jobs.Get(int(k))
		left := float64(j.Transfer)
		switch {
		case j.incarnation != e.incarnation:
			continue
		case !j.Handed.IsZero():
			left = j.left - each - gone
		case j.due.After(begins):
			continue
		}
		sum += min(max(left, 0), tokens)
	}
	return float64(sum * pace.MsPerToken)
}
