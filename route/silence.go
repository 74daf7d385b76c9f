package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// An engine may stop computing while its server goes on: a collective operation of several GPUs that never ends, a kernel that hangs, a
// scheduler that waits for itself. Its health check is good, its connections stay open, and nothing comes. No single request tells that from
// a long queue; that an answer is overdue, and that nothing at all has come from the endpoint for a while, does.

// signs takes in what the streams under way tell, and ejects the endpoints that give no sign of life although answers are overdue.
func (r *Router) signs(now time.Time, ev *Signs, to []Change) []Change {
	for _, ep := range r.endpoints {
		if at, ok := ev.At[ep.spec.Name]; ok {
			r.health.Alive(ep.id(), at)
		}
		if r.cfg.Silent >= 0 && r.backlog.Reader().Load(ep.slot).Requests > 0 && !r.health.Reader().IsSilent(now, ep.id()) && r.health.Reader().Quiet(now, ep.id()) >= r.cfg.Silent {
			r.listen(now, ep)
		}
		to = r.changes(now, ep, to)
	}
	return to
}

// listen ejects an endpoint from which nothing has come for a while if an answer is overdue there.
func (r *Router) listen(now time.Time, ep *endpoint) {
	w := r.backlog.Reader().Overdue(now, ep.slot)
	if !w.Late || ep.filledBy(w.Wholes) {
		return
	}
	waited := now.Sub(w.Since).Round(time.Second)
	r.health.Silent(now, ep.id(), w.Jobs, waited)
}

// filledBy reports whether so many answers that come as a whole, of which nobody knows how long they are, take all of an endpoint's places: who
// waits for one then waits for them, and nothing comes. Engines that do not tell their places have many, but for those made for one user.
func (e *endpoint) filledBy(wholes int) bool {
	places := e.places()
	if k := e.kind(); places == 0 && (k == fleet.KindLlamaCpp || k == fleet.KindOllama) {
		places = 1
	}
	return places > 0 && wholes >= places
}
