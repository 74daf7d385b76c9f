package admission_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/admission"
)

// TestReservedOfALeft: what a called turn has reserved of an endpoint that has left is not given back to the one that
// has its slot now.
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
	w.Age(w.now, &w.engines)
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

// TestPrefixesAreBounded: an endpoint has so many shared prefixes at most, also when conversations move there.
func TestPrefixesAreBounded(t *testing.T) {
	w := newWorld(time.Hour, 1e9, 1e9)
	n, most := uint32(0), 0
	place := func(slot int, name string, first bool, beginning uint64) {
		w.TurnPlaced(w.now, n, &admission.PlacedTurn{
			Key: key(name), Slot: slot, Tokens: 100, First: first, Cached: 50, Blocks: 1,
			Prompt: []uint64{beginning, 1000 + uint64(n)},
		})
		n++
	}
	for slot := range 2 {
		for i := range 100 {
			place(slot, fmt.Sprint(slot, "/", i), true, uint64(1+slot*100+i))
		}
		most = max(most, w.Prefixes(slot))
	}
	for i := range 100 {
		place(0, fmt.Sprint("1/", i), false, uint64(1+100+i))
	}
	if got := w.Prefixes(0); got > most || most >= 100 {
		t.Errorf("%d prefixes after others have come, %d before", got, most)
	}
	if fault := w.Fault(); fault != "" {
		t.Error(fault)
	}
}

// TestGoesToItsPrefix: a turn that was held needs less room where members have the beginning of its prompt. It goes
// there when its time has come, and not where its whole prompt would evict others; so it does where there is room.
func TestGoesToItsPrefix(t *testing.T) {
	for _, c := range []struct {
		name  string
		other int64 // what the other endpoint's member takes; the one's with the prefix takes all
		ends  bool  // the member of the endpoint with the prefix
	}{{"its time has come", 950, false}, {"there is room at both", 300, true}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(time.Hour, 1000, 1000)
			place := func(n uint32, slot int, tokens int64) {
				w.TurnPlaced(w.now, n, &admission.PlacedTurn{
					Key: key([]string{"a", "b"}[n]), Slot: slot, Tokens: tokens, First: true,
				})
			}
			place(0, 0, 1000)
			place(1, 1, c.other)
			lease, until := w.Hold(w.now, admission.Turn{
				Key: key("c"), Pool: "m", Origin: -1, Tokens: 600, Shared: 550,
				SharedAt: []admission.SharedAt{{Slot: 0, Tokens: 550}},
			})
			if w.now = until; c.ends {
				w.TurnEnded(w.now, 0, 0, false)
				place(0, 0, 350)
			}
			called, ok := w.Admit(w.now, func(time.Time, string) []int { return []int{1, 0} })
			if !ok || called != lease {
				t.Fatal("it is not called")
			}
			if at0, at1 := w.Reserved(0), w.Reserved(1); at0 != 50 || at1 != 0 {
				t.Errorf("%d tokens are reserved at its prefix and %d elsewhere, want 50 and 0", at0, at1)
			}
		})
	}
}
