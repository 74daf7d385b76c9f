package route

import (
	"iter"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/registry"
)

// streamsAlive records the signs of life of running streams, and has health judge endpoints that say nothing.
func (r *Router) streamsAlive(now time.Time, ev *StreamsAlive, to *effects) {
	several := false
	for _, s := range ev.Signs {
		if res := r.reservation(s.Lease); res != nil {
			r.health.Alive(res.ep.Slot(), s.At)
		}
	}
	for ep := range r.registry.All() {
		if !ep.Current() {
			continue
		}
		load := r.backlog.Load(ep.Slot())
		if load.Working() == load.Queued {
			r.health.NoRequests(now, ep.Slot())
		}
		if load.Requests > 0 && r.health.IsQuiet(now, ep.Slot()) {
			if w := r.waiting(now, ep); r.health.Listen(now, ep.Slot(), &w) {
				r.tellShortlist(now, ep)
			}
		}
		several = several || r.health.HasServices(ep.Slot())
		r.changes(now, ep, to)
	}
	r.health.UnmuteUntried(now)
	if several && r.cfg.Silent >= 0 {
		for _, s := range ev.Signs {
			if res := r.reservation(s.Lease); res != nil && res.prefilled && res.service() != "" {
				r.health.ServiceAlive(res.ep.Slot(), res.service(), s.At)
			}
		}
		r.health.ListenToServices(now, r.unbegun(now))
	}
}

// waiting is what an endpoint was sent and has not answered.
func (r *Router) waiting(now time.Time, ep registry.Endpoint) (w health.Waiting) {
	jobs, slot := r.backlog, ep.Slot()
	w.Kind, w.Places = ep.Kind(), ep.Places()
	w.Recent, w.Older = jobs.Overdue(now, slot, r.health.Silenced(slot))
	most := max(w.Recent.MostTokens, w.Older.MostTokens)
	w.LongestMs = jobs.LongestMs(slot, most, ep.Context())
	w.NonStreamingBefore = func(moment time.Time) int { return jobs.NonStreamingBefore(now, slot, moment) }
	return w
}

// unbegun goes through this router's requests that were sent and have no answer yet.
func (r *Router) unbegun(now time.Time) iter.Seq[health.Request] {
	return func(yield func(health.Request) bool) {
		for res := range r.running() {
			j := r.backlog.Job(res.index)
			if res.prefilled || j.Queued {
				continue
			}
			if !yield(health.Request{
				Slot: j.Slot, Service: res.service(), Turn: res.class == fleet.Turn, Stream: j.Stream,
				Late: j.Late(now), Sent: j.Sent,
			}) {
				return
			}
		}
	}
}

// Service names the part of an endpoint's work that a request belongs to, which alone may get no answers: for turns the
// model, for other work the path, "" where that is unknown.
func Service(class fleet.Class, model, path string) string {
	if class == fleet.Turn {
		return model
	}
	return path
}

func (res *reservation) service() string { return Service(res.class, res.decision.Model, res.path) }
