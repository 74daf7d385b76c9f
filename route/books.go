package route

import "time"

// flight is one open reservation.
type flight struct {
	generation uint32 // of the index; the high half of the Lease
	open       bool
	prefilled  bool // its first byte came: the prefill is no longer outstanding

	ep          *endpoint
	incarnation uint32 // of the endpoint when it was decided
	pool        *pool
	class       Class
	trial       bool // it tests an endpoint whose ejection has just ended
	routed      time.Time
	first       time.Time

	request, tenant, session string
	promptBytes, exactTokens int
	decision                 Decision

	prefill, decode, context int64 // what it added to the endpoint's books
}

// reserve enters a decision into the books.
func (r *Router) reserve(now time.Time, ep *endpoint, p *pool, req *Request, d *Decision) Lease {
	var i uint32
	if n := len(r.free); n > 0 {
		i, r.free = r.free[n-1], r.free[:n-1]
	} else {
		i = uint32(len(r.flights))
		r.flights = append(r.flights, flight{})
	}
	f := &r.flights[i]
	*f = flight{
		generation: f.generation + 1, open: true, ep: ep, incarnation: ep.incarnation, pool: p, class: req.Class, routed: now,
		request: req.ID, tenant: req.Tenant, session: d.Session,
		promptBytes: req.PromptBytes, exactTokens: req.PromptTokens, decision: *d,
	}
	switch req.Class {
	case Turn:
		f.prefill = int64(d.PromptTokens - d.CachedTokens)
		f.decode = int64(r.view.OutputTokens)
		f.context = int64(d.PromptTokens) + f.decode
	case Embed:
		f.prefill = int64(d.PromptTokens)
		f.context = f.prefill
	case Aside:
	}
	if ep.trial {
		f.trial = true
		ep.trials++
	}
	ep.load.Requests++
	ep.load.PrefillTokens += f.prefill
	ep.load.DecodeTokens += f.decode
	ep.load.ContextTokens += f.context
	ep.requests++
	r.open++
	f.decision.Lease = Lease(f.generation)<<32 | Lease(i)
	return f.decision.Lease
}

// flight finds the reservation of a lease; nil when it is not open.
func (r *Router) flight(l Lease) *flight {
	i := uint32(l)
	if int(i) >= len(r.flights) {
		return nil
	}
	f := &r.flights[i]
	if !f.open || f.generation != uint32(l>>32) {
		return nil
	}
	return f
}

// firstByte takes the prefill off the books: the engine has computed it.
func (r *Router) firstByte(now time.Time, l Lease) {
	f := r.flight(l)
	if f == nil || f.prefilled {
		return
	}
	f.first = now
	f.prefilled = true
	if f.trial && f.incarnation == f.ep.incarnation { // it computes again; its stream may last for hours
		f.trial = false
		f.ep.trials--
		f.ep.recovered(now)
	}
	f.ep.load.PrefillTokens -= f.prefill
	r.warm(now, f, f.decision.PromptTokens)
}

// finish releases a lease, draws the conclusions about its endpoint, and tells its story. It is nil for a lease that
// is not open.
func (r *Router) finish(now time.Time, ev *Finished) *Ended {
	f := r.flight(ev.Lease)
	if f == nil {
		r.doubleFinished++
		return nil
	}
	ep := f.ep
	ep.load.Requests--
	if !f.prefilled {
		ep.load.PrefillTokens -= f.prefill
	}
	ep.load.DecodeTokens -= f.decode
	ep.load.ContextTokens -= f.context
	if f.incarnation == ep.incarnation { // what an engine at an older address did says nothing about this one
		if f.trial {
			ep.trials--
		}
		r.blame(now, ep, f, ev)
	}
	if ev.Outcome == OK {
		f.pool.learn(f, ev.Usage)
		if n := ev.Usage.PromptTokens + ev.Usage.OutputTokens; ev.Usage.PromptTokens > 0 {
			r.warm(now, f, n)
		}
	}
	if ev.Response != "" {
		r.rememberResponse(now, ev.Response, ep.spec.Name)
	}
	r.ended = Ended{
		Request: f.request, Decision: f.decision, Class: f.class, Routed: f.routed, FirstByte: f.first,
		Outcome: ev.Outcome, Usage: ev.Usage,
	}
	f.open, f.ep, f.pool = false, nil, nil
	f.decision, f.request, f.tenant, f.session = Decision{}, "", "", ""
	r.free = append(r.free, uint32(ev.Lease))
	r.open--
	if ep.gone && ep.load.Requests == 0 {
		r.forget(ep)
	}
	return &r.ended
}

func (r *Router) rememberResponse(now time.Time, id, endpoint string) {
	e, ok := r.responses.Get(now, "", "", id)
	if ok && e.Endpoint == endpoint {
		return
	}
	e.Endpoint, e.Last = endpoint, now
	r.responses.Put(now, "", "", id, e)
}
