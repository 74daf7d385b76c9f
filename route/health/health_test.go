package health

import (
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// TestReadingChangesNothing: whatever a Reader is asked, the table is as it was.
func TestReadingChangesNothing(t *testing.T) {
	tab := New(Config{EjectAfter: 1, EjectFor: time.Second, EjectMax: time.Minute, EjectShare: 1, PanicShare: 0.5, BusyFor: time.Second, BusyMax: time.Minute, Ramp: time.Minute})
	now, k := time.Unix(1000, 0), 1
	tab.Enter(now, k, true)
	tab.Probe(now, k, true, "")
	tab.Admit(k)
	tab.Conclude(now, k, &Verdict{Outcome: fleet.EngineError}, func() Peers { return Peers{All: 2} })
	rows := *tab.endpoints.Get(1)
	r := tab.Reader()
	for _, at := range []time.Time{now, now.Add(time.Hour)} {
		s := r.State(at, k)
		r.Rank(at, k, 3, true)
		r.Ramp(at, k)
		r.Why(k, s)
		r.Until(k, s)
		r.IsSilent(at, k)
		r.Judged(at, k)
	}
	if !reflect.DeepEqual(rows, *tab.endpoints.Get(1)) {
		t.Error("reading has changed the table")
	}
	if s := r.State(now, k); s != fleet.StateEjected {
		t.Errorf("state %s", s)
	}
}
