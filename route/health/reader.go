package health

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Reader tells what a Table knows. Nothing that it does changes the table.
type Reader struct{ t *Table }

// Reader is what steps that may not write are handed.
func (t *Table) Reader() Reader { return Reader{t} }

func (r Reader) at(k Key) *endpoint {
	if e := r.t.endpoints.Peek(k.Slot, k.Hash); e != nil {
		return e
	}
	return &r.t.none
}

// State is an endpoint's health at a moment.
func (r Reader) State(now time.Time, k Key) fleet.State { return r.at(k).state(now) }

// Told is the state that Changes told last.
func (r Reader) Told(k Key) fleet.State { return r.at(k).told }

// Why says, for people, why an endpoint is in a state that is not up.
func (r Reader) Why(k Key, s fleet.State) string { return r.at(k).why(s) }

// Until is when an ejected or busy endpoint is tried again; zero for others.
func (r Reader) Until(k Key, s fleet.State) time.Time {
	switch e := r.at(k); s {
	case fleet.StateEjected:
		return e.ejectedUntil
	case fleet.StateBusy:
		return e.busyUntil
	default:
		return time.Time{}
	}
}

// Cause says, for people, how the last failure there came about.
func (r Reader) Cause(k Key) string { return r.at(k).cause }

// Failures is how many requests failed there by its fault.
func (r Reader) Failures(k Key) uint64 { return r.at(k).failed }

// Trials is how many requests are testing an endpoint now.
func (r Reader) Trials(k Key) int { return r.at(k).trials }

// Ramp is the share of its weight that an endpoint gets while it is taken in gently, 0.1 to 1.
func (r Reader) Ramp(now time.Time, k Key) float64 {
	e := r.at(k)
	if e.rampFrom.IsZero() || r.t.cfg.Ramp <= 0 {
		return 1
	}
	age := now.Sub(e.rampFrom)
	if age >= r.t.cfg.Ramp {
		return 1
	}
	return max(0.1, float64(age)/float64(r.t.cfg.Ramp))
}

// Rank says how fit an endpoint is for new traffic; 0 is best. Endpoints of a worse rank are used only when no better one is left: one not
// probed yet may be up, an ejected one may have recovered, a busy one may have room again; trying is better than refusing.
type Rank int

// The ranks.
const (
	Fit      Rank = 0
	Unproved Rank = 1
	Strained Rank = 2 // busy, or being tested
	Ejected  Rank = 3
	Unfit    Rank = 100 // not used at all
)

// Rank is an endpoint's rank for a caller's request; caller 0 is nobody in particular. regardless ignores ejections for nothing but failed
// requests.
func (r Reader) Rank(now time.Time, k Key, caller uint64, regardless bool) Rank {
	e := r.at(k)
	rank := Unfit
	switch e.state(now) {
	case fleet.StateUp:
		rank = Fit
		if e.halfOpen && e.trials > 0 {
			rank = Strained
		}
	case fleet.StateUnknown:
		rank = Unproved
	case fleet.StateBusy:
		rank = Strained
	case fleet.StateEjected:
		if rank = Ejected; regardless && r.Judged(now, k) {
			rank = Fit
		}
	case fleet.StateDown:
	}
	if rank < Strained && e.refusals.stops(now, caller) {
		rank = Strained
	}
	return rank
}

// IsEjected reports whether an endpoint is ejected, whatever probes say.
func (r Reader) IsEjected(now time.Time, k Key) bool { return now.Before(r.at(k).ejectedUntil) }

// Judged reports whether failed requests alone have ejected an endpoint: it can be connected to, and gives signs of life.
func (r Reader) Judged(now time.Time, k Key) bool {
	e := r.at(k)
	return now.Before(e.ejectedUntil) && !e.unreachable && e.silentAt.IsZero()
}

// Panics reports whether so few of a pool's endpoints are left that it is ignored that requests failed at the others. ejected of all that
// are not down are ejected, judged of these for failed requests alone.
func (r Reader) Panics(all, ejected, judged int) bool {
	return judged > 0 && float64(all-ejected) < float64(r.t.cfg.PanicShare*float64(all))
}

// IsSilent reports whether an endpoint is ejected because it gives no sign of life, so that what waits there waits in vain. One that is tried
// again is not.
func (r Reader) IsSilent(now time.Time, k Key) bool { return r.at(k).silent(now) }

// Quiet is for how long nothing has come of an answer there.
func (r Reader) Quiet(now time.Time, k Key) time.Duration { return now.Sub(r.at(k).lifeAt) }

func (e *endpoint) silent(now time.Time) bool {
	return !e.silentAt.IsZero() && now.Before(e.ejectedUntil)
}

func (e *endpoint) state(now time.Time) fleet.State {
	switch {
	case !e.probed:
		if now.Before(e.ejectedUntil) {
			return fleet.StateEjected
		}
		return fleet.StateUnknown
	case !e.healthy:
		return fleet.StateDown
	case now.Before(e.ejectedUntil):
		return fleet.StateEjected
	case now.Before(e.busyUntil):
		return fleet.StateBusy
	}
	return fleet.StateUp
}

// why says why the endpoint is not up.
func (e *endpoint) why(s fleet.State) string {
	switch s {
	case fleet.StateDown:
		return e.detail
	case fleet.StateEjected, fleet.StateBusy:
		return e.cause
	case fleet.StateUnknown:
		return "not probed yet"
	default:
		return ""
	}
}
