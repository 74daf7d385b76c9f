package admission_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// TestReservedOfALeft: what a called turn has reserved of an endpoint that has left is not given back to the one that has its
// slot now.
func TestReservedOfALeft(t *testing.T) {
	w := newWorld(time.Hour, 1000)
	open := func(time.Time, string) []int { return []int{0} }
	admit := func() fleet.Lease {
		t.Helper()
		lease, ok := w.Admit(w.now, open)
		if !ok {
			t.Fatal("no turn is admitted")
		}
		return lease
	}
	fill := func(name string) int { return w.ask(name, "", 900, fleet.PriorityNormal, "", 0) }
	first := fill("a")
	fill("b") // is held
	w.end(first, 0, false)
	gone := admit() // b has room there, and is not placed yet
	w.RemoveEndpoint(0)
	w.AddEndpoint(0)
	w.Age(w.now, &w.engines, 1)
	first = fill("c")
	fill("d")
	w.end(first, 0, false)
	called := admit() // d
	if got := w.Reserved(0); got != 900 {
		t.Fatalf("%d tokens are reserved for d, want 900", got)
	}
	if w.EndHold(gone); w.Reserved(0) != 900 {
		t.Errorf("%d tokens are reserved for d after the hold of b has ended, want 900", w.Reserved(0))
	}
	if w.EndHold(called); w.Reserved(0) != 0 {
		t.Errorf("%d tokens are reserved for none", w.Reserved(0))
	}
}
