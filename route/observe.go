package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/session"
)

// effects is what events lead to, beside what Observe finds out itself.
type effects struct {
	ended   *Ended
	changes []Change
	gone    []uint64
}

// Observe applies an event and returns its log entry.
func (r *Router) Observe(now time.Time, ev Event) Entry {
	to, known := effects{}, false
	r.arrivals.Age(now)
	r.forgetRestored(now)
	r.replicas.news = r.replicas.news[:0]
	switch ev := ev.(type) {
	case Declared:
		r.declare(now, &ev, &to)
	case Probed:
		r.probed(now, &ev, &to)
	case Drain:
		r.drain(now, &ev, &to)
	case FirstByte:
		r.firstByte(now, ev.Lease)
	case ResponseStarted:
		r.responseStarted(now, &ev)
	case Transferring:
		r.transferring(now, ev.Lease)
	case StreamsAlive:
		r.streamsAlive(now, &ev, &to)
	case Finished:
		r.finished(now, &ev, &to)
	case KVApplied:
		r.kvApply(now, &ev)
	case KVStreamState:
		r.kvStreamState(&ev, &to)
	case KVTick:
		r.kvTick(now, &to)
	case KVTokens:
		r.kvTokens(&ev)
	case Configured:
		if r.configure(ev.Config); ev.Policies {
			r.pools.RenewPolicies()
		}
	case Closed:
		known = r.closed(&ev)
	case PeerNews:
		r.peerNews(now, &ev)
	case PeerGone:
		r.peerGone(now, &ev)
	case FleetClock:
		r.replicas.self = ev.Self
		r.backlog.SetClock(now, ev.Offset)
	case Tick:
	}
	r.pools.Refresh()
	r.registry.ClearTouched()
	dispatched := r.dispatch(now)
	for _, q := range r.admission.Changed() {
		r.tellNews(heldNews(now, &q))
	}
	return Entry{
		Now: now, Event: ev, Ended: to.ended, Changes: to.changes, Gone: to.gone, Closed: known,
		News: r.replicas.news, Dispatched: dispatched, More: len(dispatched) >= bound.Step,
	}
}

func (r *Router) drain(now time.Time, ev *Drain, to *effects) {
	ep := r.registry.Named(ev.Endpoint)
	if !ep.Exists() || ep.Draining() != ev.Off {
		return
	}
	r.registry.Drain(ep, !ev.Off)
	r.tellShortlist(now, ep)
	detail := "draining: no new traffic"
	if ev.Off {
		detail = "takes traffic again"
	}
	r.remark(to, ep, detail)
}

func (r *Router) transferring(now time.Time, l fleet.Lease) {
	if r.reservation(l) != nil {
		r.backlog.Transferring(now, uint32(l))
		r.tellNews(News{Kind: NewsTransferring, Lease: l})
	}
}

// finished ends a lease, of a held turn too.
func (r *Router) finished(now time.Time, ev *Finished, to *effects) {
	res := r.reservation(ev.Lease)
	if res == nil {
		if !r.admission.EndHold(ev.Lease) {
			r.doubleFinished++
		}
		return
	}
	n := News{Kind: NewsEnded, Lease: ev.Lease, Outcome: ev.Outcome, Usage: ev.Usage}
	if ev.Response != "" {
		n.Response = conversation.ResponseKey(res.tenant, ev.Response)
	}
	r.tellNews(n)
	ep := res.ep
	to.ended = r.conclude(now, now, res, ev, n.Response)
	if ep.Current() {
		r.changes(now, ep, to)
	}
}

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

// changes tells an endpoint's changes of state, each once.
func (r *Router) changes(now time.Time, ep registry.Endpoint, to *effects) {
	r.health.Changes(now, ep.Slot(), func(from, state fleet.State, detail string) {
		to.changes = append(to.changes, Change{Endpoint: ep.Name(), From: from, To: state, Detail: detail})
	})
}

// remark tells a line about an endpoint whose state does not change.
func (r *Router) remark(to *effects, ep registry.Endpoint, detail string) {
	state := r.health.Reported(ep.Slot())
	to.changes = append(to.changes, Change{Endpoint: ep.Name(), From: state, To: state, Detail: detail})
}
