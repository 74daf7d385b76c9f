package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/health"
)

// Observe takes in an event and returns its log entry.
func (r *Router) Observe(now time.Time, ev Event) Entry {
	e := Entry{Now: now, Event: ev}
	switch ev := ev.(type) {
	case Declared:
		e.Changes = r.declare(now, &ev)
	case Probed:
		if ep := r.byName[ev.Endpoint]; ep != nil {
			r.probe(now, ep, &ev.Report)
			e.Changes = r.changes(now, ep, e.Changes)
		}
	case Drain:
		if ep := r.byName[ev.Endpoint]; ep != nil && ep.draining == ev.Off {
			ep.draining = !ev.Off
			detail := "draining: no new traffic"
			if ev.Off {
				detail = "takes traffic again"
			}
			told := r.health.Reader().Told(ep.id())
			e.Changes = append(e.Changes, Change{Endpoint: ev.Endpoint, From: told, To: told, Detail: detail})
		}
	case FirstByte:
		r.firstByte(now, ev.Lease)
	case Holding:
		if f := r.flight(ev.Lease); f != nil {
			r.respond(now, ev.Response, f)
		}
	case Transferring:
		if r.flight(ev.Lease) != nil {
			r.backlog.Transferring(now, uint32(ev.Lease), r.speed.Reader())
		}
	case Signs:
		e.Changes = r.signs(now, &ev, e.Changes)
	case Finished:
		var ep *endpoint
		if f := r.flight(ev.Lease); f != nil {
			ep = f.ep
		}
		if e.Ended = r.finish(now, &ev); ep != nil {
			e.Changes = r.changes(now, ep, e.Changes)
		}
	case KVApplied:
		if ep := r.byName[ev.Endpoint]; ep != nil {
			r.kvApply(now, ep, &ev)
		}
	case KVHeard:
		if ep := r.byName[ev.Endpoint]; ep != nil {
			e.Changes = r.kvHeard(ep, &ev, e.Changes)
		}
	case KVTick:
		e.Changes = r.kvTick(now, e.Changes)
	case KVTokens:
		r.kvTokens(&ev)
	case Closed:
		p := r.pool(ev.Model)
		r.conversations.Forget(conversation.Scope{Tenant: ev.Tenant, Pool: p.name}, ev.Session)
		r.conversations.Forget(conversation.Scope{Tenant: ev.Tenant, Pool: p.name + prefillSide}, ev.Session)
	}
	r.refreshPools()
	e.Called = r.dispatch(now)
	return e
}

// dispatch sends the queued requests whose turn has come, and returns their leases.
func (r *Router) dispatch(now time.Time) []fleet.Lease {
	r.called = r.called[:0]
	r.dispatched = r.backlog.Dispatch(now, r.speed.Reader(), r.dispatched[:0])
	for _, s := range r.dispatched {
		if ep := r.bySlot[s.Slot]; s.Ms > 0 {
			r.arrivals.Spend(now, ep.slot, ep.key, s.Ms)
		}
		r.called = append(r.called, r.flights[s.N].decision.Lease)
	}
	return r.called
}

// changes tells what has changed of an endpoint, once.
func (r *Router) changes(now time.Time, ep *endpoint, to []Change) []Change {
	r.health.Changes(now, ep.id(), func(c health.Change) {
		to = append(to, Change{Endpoint: ep.spec.Name, From: c.From, To: c.To, Detail: c.Detail})
	})
	return to
}

// Status is a snapshot of the endpoints in order of declaration.
func (r *Router) Status(now time.Time) []EndpointStatus {
	caches := r.cache.Reader()
	out := make([]EndpointStatus, 0, len(r.endpoints))
	judged := r.health.Reader()
	for _, ep := range r.endpoints {
		s := EndpointStatus{
			Endpoint: ep.spec, Kind: ep.kind(), Source: ep.source, State: judged.State(now, ep.id()),
			Draining: ep.draining, Gone: ep.gone, Ramp: judged.Ramp(now, ep.id()), Load: r.backlog.Reader().Load(ep.slot), Report: ep.report,
			Models: ep.models(), Requests: ep.requests, Failures: judged.Failures(ep.id()), Silent: judged.IsSilent(now, ep.id()), CacheLosses: caches.Restarts(ep.slot), KV: caches.Figures(ep.slot),
			CacheTokens: caches.Capacity(ep.slot),
		}
		if perToken := r.speed.Reader().Learnt(ep.slot); perToken > 0 {
			s.PrefillPerSec = 1000 / perToken
		}
		if t, ok := r.speed.Reader().LearntTransfer(ep.slot); ok {
			s.TransferMs, s.TransferPerSec = t.FixedMs, 1000/t.MsPerToken
		}
		s.Detail, s.Until = judged.Why(ep.id(), s.State), judged.Until(ep.id(), s.State)
		out = append(out, s)
	}
	return out
}

// Ready reports whether at least one endpoint is up and takes traffic; when none is, why says what is wrong.
func (r *Router) Ready(now time.Time) (ok bool, why string) {
	var excuses []string
	for _, ep := range r.endpoints {
		if ep.gone || !ep.spec.Role.Takes(fleet.LegWhole) {
			continue
		}
		if rank := r.usable(now, ep, 0, false); rank == health.Fit || rank == health.Strained {
			return true, r.lonely()
		}
		excuses = append(excuses, r.excuse(now, ep, &fleet.Request{}, fleet.LegWhole))
	}
	if len(excuses) == 0 {
		if lone := r.lonely(); lone != "" {
			return false, lone
		}
		return false, "no endpoint is declared"
	}
	return false, listed(excuses)
}
