package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/session"
)

// Observe applies an event and returns its log entry.
func (r *Router) Observe(now time.Time, ev Event) Entry {
	e := Entry{Now: now, Event: ev}
	r.arrivals.Age(now)
	r.forgetRestored(now)
	r.replicas.news = r.replicas.news[:0]
	switch ev := ev.(type) {
	case Declared:
		changed := r.declare(now, &ev)
		e.Changes, e.Gone = changed.changes, changed.gone
	case Probed:
		e.Changes = r.probed(now, &ev, e.Changes)
	case Drain:
		e.Changes = r.drain(now, &ev, e.Changes)
	case FirstByte:
		r.firstByte(now, ev.Lease)
	case ResponseStarted:
		r.responseStarted(now, &ev)
	case Transferring:
		r.transferring(now, ev.Lease)
	case StreamsAlive:
		e.Changes = r.streamsAlive(now, &ev, e.Changes)
	case Finished:
		e.Ended, e.Changes = r.finished(now, &ev, e.Changes)
	case KVApplied:
		r.kvApply(now, &ev)
	case KVStreamState:
		e.Changes = r.kvStreamState(&ev, e.Changes)
	case KVTick:
		e.Changes = r.kvTick(now, e.Changes)
	case KVTokens:
		r.kvTokens(&ev)
	case Configured:
		if r.configure(ev.Config); ev.Policies {
			r.pools.RenewPolicies()
		}
	case Closed:
		e.Closed = r.closed(&ev)
	case PeerNews:
		r.peerNews(now, &ev)
	case PeerGone:
		r.peerGone(now, &ev)
	case FleetClock:
		r.replicas.self = ev.Self
		r.backlog.SetClock(ev.Offset)
	case Tick:
	}
	r.pools.Refresh()
	r.registry.Settle()
	e.Dispatched = r.dispatch(now)
	r.tellHeld(now)
	e.More = len(e.Dispatched) >= bound.Step
	e.News = r.replicas.news
	return e
}

// drain begins or ends the draining of an endpoint.
func (r *Router) drain(now time.Time, ev *Drain, to []Change) []Change {
	ep := r.registry.Named(ev.Endpoint)
	if !ep.Exists() || ep.Draining() != ev.Off {
		return to
	}
	r.registry.Drain(ep, !ev.Off)
	r.tellShortlist(now, ep)
	detail := "draining: no new traffic"
	if ev.Off {
		detail = "takes traffic again"
	}
	return append(to, r.remark(ep, detail))
}

// transferring records that the KV transfer to a decode leg begins.
func (r *Router) transferring(now time.Time, l fleet.Lease) {
	if r.reservation(l) != nil {
		r.backlog.Transferring(now, uint32(l))
		r.tellNews(News{Kind: NewsTransferring, Lease: l})
	}
}

// finished ends a lease, of a held turn too.
func (r *Router) finished(now time.Time, ev *Finished, to []Change) (ended *Ended, _ []Change) {
	if admission.IsHold(ev.Lease) {
		if !r.admission.EndHold(ev.Lease) {
			r.doubleFinished++
		}
		return nil, to
	}
	res := r.reservation(ev.Lease)
	if res == nil {
		r.doubleFinished++
		return nil, to
	}
	n := News{Kind: NewsEnded, Lease: ev.Lease, Outcome: ev.Outcome, Usage: ev.Usage}
	if ev.Response != "" {
		n.Response = conversation.ResponseKey(res.tenant, ev.Response)
	}
	r.tellNews(n)
	ep := res.ep
	ended = r.conclude(now, now, res, ev, n.Response)
	if ep.Current() {
		to = r.changes(now, ep, to)
	}
	return ended, to
}

// responseStarted makes known which endpoint has a response.
func (r *Router) responseStarted(now time.Time, ev *ResponseStarted) {
	if res := r.reservation(ev.Lease); res != nil {
		key := conversation.ResponseKey(res.tenant, ev.Response)
		r.respond(now, key, res, &fleet.Usage{})
		r.tellNews(News{Kind: NewsResponse, Lease: ev.Lease, Response: key})
	}
}

// closed forgets a conversation, and reports whether it was known.
func (r *Router) closed(ev *Closed) (known bool) {
	for _, name := range ev.Pools {
		for _, scope := range [...]string{name, pool.PrefillNamespace(name)} {
			key := session.KeyOf(ev.Tenant, scope, ev.Session)
			r.admission.ConversationEnded(key)
			if r.conversations.ForgetKey(key) { // other routers are not told of unknown ones
				known = true
				r.tellNews(News{Kind: NewsClosed, Conversation: key})
			}
		}
	}
	return known
}

// dispatch sends the queued requests that are due and returns their leases.
func (r *Router) dispatch(now time.Time) []fleet.Lease {
	r.dispatchedLeases = r.dispatchedLeases[:0]
	r.dispatched = r.backlog.Dispatch(now, r.dispatched[:0])
	for _, s := range r.dispatched {
		if s.Ms > 0 {
			r.arrivals.Spend(now, s.Slot, s.Ms)
		}
		lease := r.reservations[s.N].decision.Lease
		r.dispatchedLeases = append(r.dispatchedLeases, lease)
		r.tellNews(News{Kind: NewsSent, Lease: lease})
	}
	r.admitHeld(now)
	return r.dispatchedLeases
}

// changes appends an endpoint's changes of state, each once.
func (r *Router) changes(now time.Time, ep registry.Endpoint, to []Change) []Change {
	r.health.Changes(now, ep.Slot(), func(c health.Change) {
		to = append(to, Change{Endpoint: ep.Name(), From: c.From, To: c.To, Detail: c.Detail})
	})
	return to
}

// remark is a line about an endpoint whose state does not change.
func (r *Router) remark(ep registry.Endpoint, detail string) Change {
	state := r.health.Reported(ep.Slot())
	return Change{Endpoint: ep.Name(), From: state, To: state, Detail: detail}
}
