// Package arrivals forecasts what else comes to an endpoint: turns of late, the share of its time that prompts take, and the
// conversations that are idle there and expected back.
//
// It owns a row for each endpoint and one curve of how soon conversations come back, learnt of all of them together. Rates are turns a
// millisecond. The package never looks at one request's cost, and places nothing.
package arrivals

import (
	"time"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/slot"
)

// Table is what is known of all endpoints.
type Table struct {
	clock     Clock
	returns   Returns
	endpoints slot.Table[endpoint]
}

type endpoint struct {
	turns Turns
	busy  Busy
	idles Idles
}

// Turn counts a turn that is placed at an endpoint.
func (t *Table) Turn(now time.Time, slot int, key uint64) {
	t.endpoints.At(slot, key).turns.Add(now)
}

// Spend counts ms that an endpoint will spend on a prompt.
func (t *Table) Spend(now time.Time, slot int, key uint64, ms float64) {
	t.endpoints.At(slot, key).busy.Spend(now, ms)
}

// Restarted forgets the load of an endpoint at which another engine is now. The conversations that are idle there are not forgotten.
func (t *Table) Restarted(slot int, key uint64) {
	e := t.endpoints.At(slot, key)
	e.turns, e.busy = Turns{}, Busy{}
}

// Left forgets an endpoint that is no longer declared.
func (t *Table) Left(slot int) { t.endpoints.Reset(slot) }

// Activate notes that a conversation is being answered at an endpoint.
func (t *Table) Activate(slot int, key uint64) { t.endpoints.At(slot, key).idles.active++ }

// Deactivate is its end.
func (t *Table) Deactivate(slot int, key uint64) { t.endpoints.At(slot, key).idles.active-- }

// Active is how many conversations are being answered at an endpoint.
func (t *Table) Active(slot int, key uint64) int { return t.endpoints.At(slot, key).idles.active }

// Wake takes a conversation out of those that are idle at an endpoint. back says that it has come back; else it begins to be idle anew.
func (t *Table) Wake(now time.Time, slot int, key uint64, since uint32, back bool) {
	t.endpoints.At(slot, key).idles.Leave(t.clock.Tick(now), since, back, &t.returns)
}

// Rest has a conversation be idle at an endpoint from now on, and returns the tick to hand to Wake.
func (t *Table) Rest(now time.Time, slot int, key uint64) uint32 {
	at := t.clock.Tick(now)
	t.endpoints.At(slot, key).idles.Add(at, &t.returns)
	return at
}

// Expect fills in the columns Busy, Steady and TurnsPerMs, and Watched.
func (t *Table) Expect(v *pick.View) {
	v.Watched = 0
	for i := range v.Candidates {
		c := &v.Candidates[i]
		e := t.endpoints.At(c.Slot, c.Key)
		c.Busy, c.Steady = e.busy.Shares(v.Now)
		c.TurnsPerMs = e.turns.PerMs(v.Now)
		v.Watched = max(v.Watched, e.turns.Watched(v.Now))
	}
}

// ExpectReturns fills in the column ReturnsPerMs. The request's own conversation, idle at home since a tick, is left out.
func (t *Table) ExpectReturns(v *pick.View, home string, since uint32) {
	at := t.clock.Tick(v.Now)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		own := uint32(0)
		if home == c.Name {
			own = since
		}
		c.ReturnsPerMs = t.endpoints.At(c.Slot, c.Key).idles.PerMs(at, own, v, c, &t.returns)
	}
}

// Ms is a duration in milliseconds, to the microsecond.
func Ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
