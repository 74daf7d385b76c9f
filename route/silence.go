package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// An engine may stop computing while its server goes on: a collective operation of several GPUs that never ends, a kernel that hangs, a
// scheduler that waits for itself. Its health check is good, its connections stay open, and nothing comes. No single request tells that from
// a long queue; that an answer is overdue, and that nothing at all has come from the endpoint for a while, does.

const (
	mostTTFT      = 4  // times the predicted time to first token after which an answer may be called overdue
	mostTTFTGuess = 16 // the same where nothing has been learnt of the endpoint itself
	mostLength    = 2  // times what the longest answer that was asked for should take, of those that come as a whole
)

// overdue is when the answer of a flight that has been decided is overdue, should its endpoint have given no sign of life; zero for never, as
// long as nothing tells how long it ought to take.
func (r *Router) overdue(f *flight) time.Time {
	if r.cfg.Silent < 0 || f.class != fleet.Turn || f.decision.TTFTMs <= 0 {
		return time.Time{}
	}
	times := float64(mostTTFT)
	if f.ep.speed.samples == 0 {
		if times = mostTTFTGuess; r.speeds.perToken == 0 {
			return time.Time{}
		}
	}
	patience := float64(times * f.decision.TTFTMs)
	if !f.stream {
		each := max(float64(f.ep.speed.perAnswer), f.ep.speed.perStep)
		if f.maxTokens <= 0 || each == 0 {
			return time.Time{}
		}
		patience += float64(float64(mostLength*float64(f.maxTokens)) * each)
	}
	return f.sent.Add(r.cfg.Silent + time.Duration(min(patience, 1e9)*1e6))
}

// late reports whether the flight's answer is overdue.
func (f *flight) late(now time.Time) bool {
	switch {
	case !f.open || f.prefilled || f.overdue.IsZero():
		return false
	case f.leg != fleet.LegDecode:
		return !now.Before(f.overdue)
	}
	// It waits for its prefiller until it is handed what it needs.
	return !f.handed.IsZero() && !now.Before(f.overdue.Add(max(0, f.handed.Sub(f.due))))
}

// signs takes in what the streams under way tell, and ejects the endpoints that give no sign of life although answers are overdue.
func (r *Router) signs(now time.Time, ev *Signs, to []Change) []Change {
	for _, ep := range r.endpoints {
		if at, ok := ev.At[ep.spec.Name]; ok {
			r.health.Alive(ep.id(), at)
		}
		if r.cfg.Silent >= 0 && ep.load.Requests > 0 && !r.health.Reader().IsSilent(now, ep.id()) && r.health.Reader().Quiet(now, ep.id()) >= r.cfg.Silent {
			r.listen(now, ep)
		}
		to = r.changes(now, ep, to)
	}
	return to
}

// listen ejects an endpoint from which nothing has come for a while if an answer is overdue there.
func (r *Router) listen(now time.Time, ep *endpoint) {
	waiting, first := 0, now
	late, wholes := false, 0
	for i := range r.flights {
		f := &r.flights[i]
		if !f.open || f.prefilled || f.waits || f.ep != ep || f.incarnation != ep.incarnation {
			continue
		}
		waiting++
		if f.late(now) {
			late = true
		} else if !f.stream {
			wholes++
		}
		if f.sent.Before(first) {
			first = f.sent
		}
	}
	if !late || ep.filledBy(wholes) {
		return
	}
	waited := now.Sub(first).Round(time.Second)
	r.health.Silent(now, ep.id(), waiting, waited)
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
