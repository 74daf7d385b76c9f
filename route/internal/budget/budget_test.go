package budget

import (
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
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
