package health

import (
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// TestReadingChangesNothing: whatever a Reader is asked, the table is as it was.
func TestReadingChangesNothing(t *testing.T) {
	tab := New(Config{
		EjectAfter: 1, EjectFor: time.Second, EjectMax: time.Minute, EjectShare: 1, PanicShare: 0.5,
		BusyFor: time.Second, BusyMax: time.Minute, Ramp: time.Minute,
	})
	now, k := time.Unix(1000, 0), 1
	tab.AddEndpoint(k)
	tab.RampUp(now, k)
	tab.Probe(now, k, true, "")
	tab.Admit(k)
	tab.Conclude(now, k, &Verdict{Outcome: fleet.EngineError}, func() Census { return Census{All: 2} })
	rows := *tab.endpoints.Get(1)
	r := tab.Reader
	for _, at := range []time.Time{now, now.Add(time.Hour)} {
		s := r.State(at, k)
		r.Rank(at, k, 3, IgnoreEjections)
		r.Ramp(at, k)
		r.Why(k, s)
		r.Until(k, s)
		r.IsSilent(at, k)
		r.EjectedByFailures(at, k)
	}
	if !reflect.DeepEqual(rows, *tab.endpoints.Get(1)) {
		t.Error("reading has changed the table")
	}
	if s := r.State(now, k); s != fleet.StateEjected {
		t.Errorf("state %s", s)
	}
}

// TestFailuresFromBeforeEndNoTrial: what an endpoint was sent before it was ejected for silence fails during its trial.
// It is charged, and the trial goes on; what was sent since ejects it again.
func TestFailuresFromBeforeEndNoTrial(t *testing.T) {
	tab := New(Config{EjectAfter: 1, EjectFor: time.Second, EjectMax: time.Minute, EjectShare: 1})
	now, k := time.Unix(1000, 0), 0
	tab.AddEndpoint(k)
	tab.Probe(now, k, true, "")
	fail := func(at, sent time.Time) (fleet.State, uint64) {
		tab.Conclude(at, k, &Verdict{Outcome: fleet.TimedOut, Sent: sent}, func() Census { return Census{All: 2} })
		return tab.State(at, k), tab.Failures(k)
	}
	tab.ejectSilent(now, k, 2, time.Minute, 0)
	trial := now.Add(2 * time.Second)
	if !tab.Admit(k) {
		t.Fatal("the endpoint is not tried")
	}
	if s, n := fail(trial, now.Add(-time.Second)); s != fleet.StateUp || n != 1 {
		t.Errorf("after what was sent before: %s, %d failures", s, n)
	}
	if s, n := fail(trial, trial); s != fleet.StateEjected || n != 2 {
		t.Errorf("after what was sent since: %s, %d failures", s, n)
	}
}

// TestLoads: an endpoint that had no model in memory may load one, until a byte comes or the load takes too long.
func TestLoads(t *testing.T) {
	tab := New(Config{})
	now, k := time.Unix(1000, 0), 0
	tab.AddEndpoint(k)
	is := func(at time.Time, want bool, when string) {
		t.Helper()
		if got := tab.endpoints.Get(k).loadsAnyModel(at); got != want {
			t.Errorf("%s: %t", when, got)
		}
	}
	is(now, false, "before a report")
	tab.Alive(k, now)
	tab.Dozed(now.Add(time.Second), k)
	is(now.Add(time.Minute), true, "dozing")
	is(now.Add(time.Second+mostLoading), false, "for too long")
	tab.Alive(k, now.Add(2*time.Second))
	is(now.Add(3*time.Second), false, "after a byte")
}
