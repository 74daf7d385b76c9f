package route

import "time"

// link is the transfers to one decoder while they share what its link carries, as far as the router can tell: each that is under way has an
// even part of it, as TCP and the queue pairs of an RDMA port have. What the links of prefillers carry is not reckoned with.
type link struct {
	at   time.Time // up to when it is reckoned
	area float64   // transfers under way, times ms
}

// passes lets time go by on a decoder's link. It is to be asked before a transfer begins or ends.
func (r *Router) passes(now time.Time, ep *endpoint) {
	dt := ms(now.Sub(ep.link.at))
	if dt <= 0 {
		return
	}
	ep.link.at = now
	if len(ep.coming) == 0 { // of every endpoint where nothing is split
		return
	}
	perToken := r.transferOf(now, ep).perToken
	for dt > 0 {
		n, next := 0, -1.0 // under way, and tokens that the first of them has left that may be over before dt is
		for _, k := range ep.coming {
			f := &r.flights[k]
			if !f.moves() {
				continue
			}
			if n++; !f.stream && (next < 0 || f.left < next) {
				next = f.left
			}
		}
		if n == 0 {
			return
		}
		step, each := float64(float64(next*perToken)*float64(n)), next
		if next < 0 || step > dt {
			step, each = dt, dt/float64(perToken*float64(n))
		}
		for _, k := range ep.coming {
			if f := &r.flights[k]; f.moves() {
				f.left = max(0, f.left-each)
			}
		}
		ep.link.area += float64(step * float64(n))
		dt -= step
	}
}

// moves reports whether a decode leg that has not answered yet has KV cache under way: until its first byte, or, since an answer that comes as
// a whole has none before its end, until all is thought to have come.
func (f *flight) moves() bool {
	return !f.handed.IsZero() && f.transfer > 0 && (f.stream || f.left > 0) && f.incarnation == f.ep.incarnation
}

// besides is for how many ms longer a transfer of so many tokens that begins in so many ms takes for the others that share the link with it, and
// they for it: until the shorter one of two is over each has half of what it would have.
func (r *Router) besides(now time.Time, ep *endpoint, pace movePace, tokens, in float64) float64 {
	if !pace.shares || len(ep.coming) == 0 {
		return 0
	}
	r.passes(now, ep)
	n := 0
	for _, k := range ep.coming {
		if r.flights[k].moves() {
			n++
		}
	}
	gone := in / float64(pace.perToken*float64(max(n, 1))) // of each by then
	begins := now.Add(time.Duration(in * 1e6))
	sum := 0.0
	for _, k := range ep.coming {
		f := &r.flights[k]
		left := float64(f.transfer)
		switch {
		case f.incarnation != ep.incarnation:
			continue
		case !f.handed.IsZero():
			left = f.left - gone
		case f.due.After(begins):
			continue
		}
		sum += min(max(left, 0), tokens)
	}
	return float64(sum * pace.perToken)
}
