package route

import (
	"fmt"
	"time"
)

// Requests that fail may be at fault themselves. So what they can do to a fleet is bounded twice: ejections stop at a share of a pool
// when they happen (mayEject), and are ignored when too little of a pool is left all the same (panics), since other endpoints
// of it went down or left meanwhile. An endpoint that gives no sign of life is ejected in any case: no single request does that.

// mayEject reports whether an endpoint may be ejected for a failed request: not the last of those that can do the same work in the
// request's pool, and not more of them at once than the configured share. first says that this is the first failure that ought to eject it.
func (r *Router) mayEject(now time.Time, ep *endpoint, f *flight, first bool) bool {
	if now.Before(ep.ejectedUntil) {
		return true // it is out already
	}
	all, out := 1, 0
	for i := range f.pool.members {
		e := f.pool.members[i].ep
		if e == ep || !e.spec.Role.Takes(f.leg) || e.usable(now) == unusable {
			continue
		}
		all++
		if now.Before(e.ejectedUntil) {
			out++
		}
	}
	most := 0
	if r.cfg.EjectShare > 0 {
		most = min(max(1, int(r.cfg.EjectShare*float64(all))), all-1)
	}
	if out < most {
		return true
	}
	r.spared++
	switch {
	case first && all == 1:
		ep.news = append(ep.news, ep.cause+"; it is not ejected, since no other endpoint does its work")
	case first:
		ep.news = append(ep.news, fmt.Sprintf("%s; it is not ejected, since %d of %d endpoints that do its work are, and at most %d may be", ep.cause, out, all, most))
	}
	return false
}

// judged reports whether failed requests alone have ejected the endpoint: it can be connected to, and gives signs of life.
func (e *endpoint) judged(now time.Time) bool {
	return now.Before(e.ejectedUntil) && !e.unreachable && e.silentAt.IsZero()
}

// panics reports whether so few of a pool's endpoints are left that it is ignored that requests failed at the others. ejected of all that
// are not down are ejected, judged of these for failed requests alone.
func (r *Router) panics(all, ejected, judged int) bool {
	return judged > 0 && float64(all-ejected) < float64(r.cfg.PanicShare*float64(all))
}
