// Package arrivals forecasts further requests for each endpoint: its recent rate of turns and the share of its time
// spent on prefill (turns.go), and the idle conversations expected back (idle.go).
//
// It owns a row per endpoint and one return curve learnt from all conversations together. What turns of a pool are like
// is a value of the pool's (Mix). Rates are turns per millisecond. The package computes no cost of a request and places
// nothing.
package arrivals

import (
	"time"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/slot"
)

// Table holds the statistics of all endpoints.
type Table struct {
	Reader
	clock     Clock
	returns   Returns
	endpoints slot.Table[endpoint]
	aged      uint32 // tick of the last Age
	next, due int    // endpoint from which on idle times are to be advanced, and how many still are
	without   ablation.Set
}

// New returns an empty table without the mechanisms in the set.
func New(without ablation.Set) *Table {
	t := &Table{without: without}
	t.Reader = Reader{t}
	return t
}

type endpoint struct {
	turns       Turns
	utilisation Utilisation
	idles       Idles
}

// AddEndpoint adds an endpoint.
func (t *Table) AddEndpoint(slot int) { *t.endpoints.Grow(slot) = endpoint{} }

// Replace moves the idle conversations of an endpoint to its successor under the same name. Running turns stay.
func (t *Table) Replace(old, slot int) {
	from, to := &t.endpoints.Get(old).idles, &t.endpoints.Get(slot).idles
	*to, *from = *from, Idles{active: from.active}
	to.active = 0
}

// Turn counts a turn placed at an endpoint.
func (t *Table) Turn(now time.Time, slot int) {
	t.endpoints.Get(slot).turns.Add(now)
}

// Spend adds ms that an endpoint will spend on prefill.
func (t *Table) Spend(now time.Time, slot int, ms float64) {
	t.endpoints.Get(slot).utilisation.Spend(now, ms)
}

// RemoveEndpoint forgets an endpoint that is no longer declared.
func (t *Table) RemoveEndpoint(slot int) { t.endpoints.Reset(slot) }

// Activate counts a conversation with a running turn at an endpoint.
func (t *Table) Activate(slot int) { t.endpoints.Get(slot).idles.active++ }

// Deactivate ends Activate.
func (t *Table) Deactivate(slot int) { t.endpoints.Get(slot).idles.active-- }

// Return removes a conversation that has come back from the idle ones of an endpoint.
func (t *Table) Return(now time.Time, slot int, since uint32) {
	t.endpoints.Get(slot).idles.Return(t.clock.Tick(now), since, &t.returns)
}

// Restart removes a conversation whose idle time begins again.
func (t *Table) Restart(now time.Time, slot int, since uint32) {
	t.endpoints.Get(slot).idles.Drop(t.clock.Tick(now), since, &t.returns)
}

// Forget removes a conversation that is remembered no more from the idle ones of an endpoint.
func (t *Table) Forget(slot int, since uint32) {
	t.endpoints.Get(slot).idles.Drop(t.clock.latest, since, &t.returns)
}

// BeginIdle makes a conversation idle at an endpoint and returns the tick to pass to Return.
func (t *Table) BeginIdle(now time.Time, slot int) uint32 {
	at := t.clock.Tick(now)
	t.endpoints.Get(slot).idles.Add(at, &t.returns)
	return at
}

// Age advances the idle time of all conversations. The router calls it with every event. One call advances bound.Look
// spans, and those of the last endpoint: about 70 µs. In a large fleet it takes several calls; what is not advanced yet
// is computed for those endpoints that a decision asks about.
func (t *Table) Age(now time.Time) {
	if at := t.clock.Tick(now); at != t.aged {
		if t.due == 0 {
			t.next = 0
		}
		t.aged, t.due = at, t.endpoints.Len()
	}
	for left := bound.Look; t.due > 0 && left > 0; t.due-- {
		if t.next >= t.endpoints.Len() {
			t.next = 0
		}
		idles := &t.endpoints.Get(t.next).idles
		left -= 1 + len(idles.spans)
		idles.Advance(t.aged, &t.returns)
		t.next++
	}
}

// Reader reads a Table and changes nothing.
type Reader struct{ t *Table }

// Active is the number of conversations with a running turn at an endpoint.
func (r Reader) Active(slot int) int { return r.t.endpoints.Get(slot).idles.active }

// Fleet is what endpoints have in common.
type Fleet struct {
	Watched float64 // see pick.View.Watched
	mean    float64 // of their TurnsPerMs, where that is taken for the rate of returns
	tick    uint32  // of the Clock
}

// Fleet looks at all endpoints that may take a request.
func (r Reader) Fleet(now time.Time, all pick.Endpoints) (f Fleet) {
	f.tick = r.t.clock.At(now)
	var longest *Turns // the endpoint watched for longest
	for i := range all.Len() {
		t := &r.t.endpoints.Get(all.At(i).Slot).turns
		if !t.first.IsZero() && (longest == nil || t.first.Before(longest.first)) {
			longest = t
		}
	}
	if longest != nil && !r.t.without.Has(ablation.WarmUp) {
		f.Watched = longest.Watched(now)
	}
	if r.t.without.Has(ablation.Returns) {
		for i := range all.Len() {
			f.mean += r.t.endpoints.Get(all.At(i).Slot).turns.PerMs(now)
		}
		f.mean /= float64(max(all.Len(), 1))
	}
	return f
}

// Demand is how many turns are expected at an endpoint of a fleet, and how busy it is. Returns are those within
// takesMs, without a conversation that has been idle there since a tick, 0 for none. They are left out if takesMs is
// below 0.
func (r Reader) Demand(now time.Time, slot int, f *Fleet, idle uint32, takesMs float64) (d pick.Demand) {
	e := r.t.endpoints.Get(slot)
	if !r.t.without.Has(ablation.Utilisation) {
		d.Utilisation = e.utilisation.Share(now)
	}
	d.TurnsPerMs = e.turns.PerMs(now)
	switch {
	case takesMs < 0:
	case r.t.without.Has(ablation.Returns):
		d.ReturnsPerMs = f.mean
	default:
		d.ReturnsPerMs = e.idles.PerMs(f.tick, idle, takesMs, &r.t.returns)
	}
	return d
}
