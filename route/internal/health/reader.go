package health

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Reader is a read-only view of a Table.
type Reader struct{ t *Table }

// State is an endpoint's health at a moment.
func (r Reader) State(now time.Time, slot int) fleet.State { return r.t.endpoints.Get(slot).state(now) }

// Reported is the state that Changes reported last.
func (r Reader) Reported(slot int) fleet.State { return r.t.endpoints.Get(slot).reported }

// Why says, for people, why an endpoint is in a state that is not up.
func (r Reader) Why(slot int, s fleet.State) string { return r.t.endpoints.Get(slot).why(s) }

// Until is when an ejected or busy endpoint is tried again; zero for others.
func (r Reader) Until(slot int, s fleet.State) time.Time {
	switch e := r.t.endpoints.Get(slot); s {
	case fleet.StateEjected:
		return e.ejectedUntil
	case fleet.StateBusy:
		return e.busyUntil
	default:
		return time.Time{}
	}
}

// Cause describes the last failure, for people.
func (r Reader) Cause(slot int) string { return r.t.endpoints.Get(slot).cause }

// Failures is how many requests failed there by its fault.
func (r Reader) Failures(slot int) uint64 { return r.t.endpoints.Get(slot).failed }

// Tests reports whether the next request to an endpoint tests it.
func (r Reader) Tests(slot int) bool { return r.t.endpoints.Get(slot).halfOpen }

// Trials is how many requests are testing an endpoint now.
func (r Reader) Trials(slot int) int { return r.t.endpoints.Get(slot).trials }

// Ramp is the share of its weight that an endpoint gets during its ramp, 0.1 to 1.
func (r Reader) Ramp(now time.Time, slot int) float64 {
	from, lasts := r.t.endpoints.Get(slot).rampFrom, r.t.cfg.Ramp
	if from.IsZero() || now.Sub(from) >= lasts {
		return 1
	}
	return max(0.1, float64(now.Sub(from))/float64(lasts))
}

// Rank grades an endpoint for new traffic; 0 is best. A worse rank is used only when no better one is left: an endpoint
// not probed yet may be up, an ejected one may have recovered, a busy one may have room again; trying is better than
// refusing.
type Rank int

// The ranks.
const (
	Fit Rank = iota
	Unproved
	Strained // busy, or under trial
	Ejected
	Unfit // not used at all
)

// Ejections says whether ejections caused by failed requests alone count.
type Ejections uint8

// They count, unless too few endpoints are left: see Panics.
const (
	ObeyEjections Ejections = iota
	IgnoreEjections
)

// Rank grades an endpoint for a caller's request; caller 0 is anonymous.
func (r Reader) Rank(now time.Time, slot int, caller uint64, ejections Ejections) Rank {
	e := r.t.endpoints.Get(slot)
	if e.probesDecide() {
		switch {
		case !e.probed:
			return Unproved
		case !e.healthy:
			return Unfit
		case e.unanswered:
			return Strained
		}
		return Fit
	}
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
		if rank = Ejected; ejections == IgnoreEjections && r.EjectedByFailures(now, slot) {
			rank = Fit
		}
	case fleet.StateDown:
	}
	if rank < Strained && e.refusals.stops(now, caller) {
		rank = Strained
	}
	return rank
}

// IsEjected reports whether an endpoint is ejected, up or down.
func (r Reader) IsEjected(now time.Time, slot int) bool {
	return now.Before(r.t.endpoints.Get(slot).ejectedUntil)
}

// EjectedByFailures reports whether failed requests alone ejected an endpoint: it can be connected to and is not
// silent.
func (r Reader) EjectedByFailures(now time.Time, slot int) bool {
	e := r.t.endpoints.Get(slot)
	return now.Before(e.ejectedUntil) && !e.unreachable && e.silentAt.IsZero()
}

// Census counts the endpoints of a pool that are not down, and those of them that are ejected.
type Census struct{ All, Ejected, EjectedByFailures int }

// Count adds an endpoint of that rank.
func (r Reader) Count(now time.Time, slot int, rank Rank, c *Census) {
	c.All++
	if rank == Ejected {
		c.Ejected++
		if r.EjectedByFailures(now, slot) {
			c.EjectedByFailures++
		}
	}
}

// Panics reports whether so few of a pool's endpoints are left (panic threshold) that ejections for failed requests are
// ignored.
func (r Reader) Panics(c Census) bool {
	return c.EjectedByFailures > 0 && float64(c.All-c.Ejected) < float64(r.t.cfg.PanicShare*float64(c.All))
}

// UnreachedSince reports whether a connection to an endpoint has failed since a time.
func (r Reader) UnreachedSince(slot int, at time.Time) bool {
	return r.t.endpoints.Get(slot).unreached.After(at)
}

// IsSilent reports whether an endpoint is ejected for silence, so that what waits there waits in vain.
func (r Reader) IsSilent(now time.Time, slot int) bool { return r.t.endpoints.Get(slot).silent(now) }

// loadsAnyModel reports whether an endpoint may be silent because it loads a model: it had none in memory, and no byte
// has come since, or a request waits for one that was not in memory. A load takes mostLoading at most.
func (e *endpoint) loadsAnyModel(now time.Time) bool {
	return e.dozedAt.After(e.lastByteAt) && now.Sub(e.dozedAt) < mostLoading ||
		slices.ContainsFunc(e.modelLoads, func(l modelLoad) bool { return now.Sub(l.at) < mostLoading })
}

// LoadsModel reports whether a request waits for that model to be loaded.
func (r Reader) LoadsModel(now time.Time, slot int, model string) bool {
	return slices.ContainsFunc(r.t.endpoints.Get(slot).modelLoads, func(l modelLoad) bool {
		return l.model == model && now.Sub(l.at) < mostLoading
	})
}

const mostLoading = 5 * time.Minute // of 70B weights from a network file system

// ProbesDecide reports whether from now on an endpoint's rank depends on its probes alone, for all callers, until a
// request fails there.
func (r Reader) ProbesDecide(now time.Time, slot int) bool {
	e := r.t.endpoints.Get(slot)
	return e.refusals.over(now) && !e.halfOpen && !now.Before(e.busyUntil) && !now.Before(e.ejectedUntil)
}

// probesDecide reports whether requests have left nothing to judge an endpoint by, as is so of nearly all of them,
// nearly always: probes alone say how it is, whatever the time.
func (e *endpoint) probesDecide() bool {
	return len(e.refusals) == 0 && !e.halfOpen && e.busyUntil.IsZero() && e.ejectedUntil.IsZero()
}

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
	case now.Before(e.busyUntil), e.unanswered:
		return fleet.StateBusy
	}
	return fleet.StateUp
}

// why explains, for people, why the endpoint is not up.
func (e *endpoint) why(s fleet.State) string {
	switch s {
	case fleet.StateDown:
		return e.detail
	case fleet.StateBusy:
		if e.unanswered {
			return e.detail
		}
		return e.cause
	case fleet.StateEjected:
		return e.cause
	case fleet.StateUnknown:
		return "not probed yet"
	default:
		return ""
	}
}
