package budget

import (
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/instant/clockset"
)

// TestCountsLeaveByTheSlot: counts leave step by step after a minute, whatever the clock does, and none goes below
// zero.
func TestCountsLeaveByTheSlot(t *testing.T) {
	b := New(0.2, 10)
	now := time.Unix(1_000_000, 0)
	for range steps {
		for range 100 {
			b.Enter(now, &fleet.Request{})
			b.Enter(now, &fleet.Request{Attempt: fleet.Attempt{Again: true}})
		}
		now = now.Add(5 * time.Second)
	}
	for i := range steps {
		before := *b
		if got, want := b.sum(now), (count{100 * (steps - 1 - i), 100 * (steps - 1 - i)}); got != want {
			t.Fatalf("after %d steps: %+v, want %+v", steps+i, got, want)
		}
		b.Allows(now, &fleet.Request{Attempt: fleet.Attempt{Again: true}})
		if !reflect.DeepEqual(before, *b) {
			t.Fatal("reading has changed it")
		}
		b.advance(now.Add(-time.Hour))
		now = now.Add(5 * time.Second)
	}
	if !b.Allows(now, &fleet.Request{Attempt: fleet.Attempt{Again: true}}) {
		t.Error("nothing is allowed a minute later")
	}
}

// TestClockThatIsSet: what was counted leaves by the time that has passed, whatever the clock says.
func TestClockThatIsSet(t *testing.T) {
	again := &fleet.Request{Attempt: fleet.Attempt{Again: true}}
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		b, now := New(0, 1), time.Now()
		b.Enter(now, again)
		if at := clockset.By(by, now.Add(30*time.Second)); b.Allows(at, again) {
			t.Errorf("set by %v: a second retry is allowed after 30 s", by)
		}
		if at := clockset.By(by, now.Add(70*time.Second)); !b.Allows(at, again) {
			t.Errorf("set by %v: no retry is allowed after 70 s", by)
		}
	}
}
