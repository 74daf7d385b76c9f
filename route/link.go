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
	if ms(now.Sub(ep.link.at)) <= 0 {
		return
	}
	each, area := r.carried(now, ep)
	ep.link.at = now
	ep.link.area += area
	for _, k := range ep.coming {
		if f := &r.flights[k]; f.moves() {
			f.left = max(0, f.left-each)
		}
	}
}

// carried is how many tokens of each transfer the link has carried since it was last reckoned, and for how long, in ms times the transfers
// under way. It changes nothing.
func (r *Router) carried(now time.Time, ep *endpoint) (each, area float64) {
	dt := ms(now.Sub(ep.link.at))
	if dt <= 0 || len(ep.coming) == 0 { // nothing is coming to any endpoint where nothing is split
		return 0, 0
	}
	perToken := r.transferOf(now, ep).perToken
	for dt > 0 {
		n, next := 0, -1.0 // under way, and tokens that the first of them has left that may be over before dt is
		for _, k := range ep.coming {
			f := &r.flights[k]
			if !f.moves() || !f.stream && f.left <= each {
				continue
			}
			if n++; !f.stream && (next < 0 || f.left-each < next) {
				next = f.left - each
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
	each, _ := r.carried(now, ep)
	n := 0
	for _, k := range ep.coming {
		if f := &r.flights[k]; f.moves() && (f.stream || f.left > each) {
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
			left = f.left - each - gone
		case f.due.After(begins):
			continue
		}
		sum += min(max(left, 0), tokens)
	}
	return float64(sum * pace.perToken)
}
