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
	now, k := time.Unix(1000, 0), Key{Slot: 1, Hash: 7}
	tab.Enter(now, k, true)
	tab.Probe(now, k, true, "")
	tab.Admit(k)
	tab.Conclude(now, k, &Verdict{Outcome: fleet.EngineError}, func() Peers { return Peers{All: 2} })
	rows := *tab.endpoints.Peek(1, 7)
	r := tab.Reader()
	for _, key := range []Key{k, {Slot: 5, Hash: 9}, {Slot: 1, Hash: 8}} {
		for _, at := range []time.Time{now, now.Add(time.Hour)} {
			s := r.State(at, key)
			r.Rank(at, key, 3, true)
			r.Ramp(at, key)
			r.Why(key, s)
			r.Until(key, s)
			r.IsSilent(at, key)
			r.Judged(at, key)
		}
	}
	if !reflect.DeepEqual(rows, *tab.endpoints.Peek(1, 7)) || tab.endpoints.Peek(5, 9) != nil {
		t.Error("reading has changed the table")
	}
	if s := r.State(now, k); s != fleet.StateEjected {
		t.Errorf("state %s", s)
	}
	if s := r.State(now, Key{Slot: 5, Hash: 9}); s != fleet.StateUnknown {
		t.Errorf("an endpoint that is not known is %s", s)
	}
}
