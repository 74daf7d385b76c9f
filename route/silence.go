package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/registry"
)

// An engine may stop computing while its server goes on: a collective operation of several GPUs that never ends, a hanging
// kernel, a deadlocked scheduler. Its health check succeeds, its connections stay open, and no data comes. A single request
// cannot tell this from a long queue; an overdue answer together with silence of the whole endpoint can.

// signs records the signs of life of running streams, and ejects silent endpoints with overdue answers.
func (r *Router) signs(now time.Time, ev *Signs, to []Change) []Change {
	for ep := range r.endpoints.All() {
		if !ep.Current() {
			continue
		}
		if at, ok := ev.At[ep.Name()]; ok {
			r.health.Alive(ep.Slot(), at)
		}
		if r.cfg.Silent >= 0 && r.backlog.Reader().Load(ep.Slot()).Requests > 0 && !r.health.Reader().IsSilent(now, ep.Slot()) && r.health.Reader().Quiet(now, ep.Slot()) >= r.cfg.Silent {
			r.listen(now, ep)
		}
		to = r.changes(now, ep, to)
	}
	return to
}

// listen ejects an endpoint that has been silent for a while with an answer overdue.
func (r *Router) listen(now time.Time, ep registry.Endpoint) {
	w := r.backlog.Reader().Overdue(now, ep.Slot())
	if !w.Late || filled(ep, w.Wholes) {
		return
	}
	waited := now.Sub(w.Since).Round(time.Second)
	r.health.Silent(now, ep.Slot(), w.Jobs, waited)
	r.describeShort(now, ep)
}

// filled reports whether this many non-streamed answers of unknown length occupy all slots of an endpoint: further requests
// then wait for them without any data. Engines that do not report slots have many, except those made for one user.
func filled(e registry.Endpoint, wholes int) bool {
	places := e.Places()
	if k := e.Kind(); places == 0 && (k == fleet.KindLlamaCpp || k == fleet.KindOllama) {
		places = 1
	}
	return places > 0 && wholes >= places
}
