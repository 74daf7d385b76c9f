package admission_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/blocks"
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
	fill := func(name string) int { return w.ask(name, "", 900, fleet.PriorityNormal, "", 0, beginning{}) }
	first := fill("a")
	fill("b") // is held
	w.end(first, 0, false)
	gone := admit() // b has room there, and is not placed yet
	w.RemoveEndpoint(0)
	w.AddEndpoint(0)
	w.Age(w.now)
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

// TestSharedOnce: however prompts begin like others, change and move, an endpoint's working set is each block of its
// members' latest prompts once.
func TestSharedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(time.Hour, 1e9, 1e9)
		names := []string{"a", "b", "c", "d", "e"}
		latest := [2]map[string][]uint64{{}, {}}
		rest := [2]map[string]int64{{}, {}}
		for n := range rapid.IntRange(1, 40).Draw(t, "turns") {
			name, slot := rapid.SampledFrom(names).Draw(t, "name"), rapid.IntRange(0, 1).Draw(t, "slot")
			tokens := rapid.Int64Range(1, 300).Draw(t, "tokens")
			prompt := w.says(name, tokens, beginning{
				rapid.SampledFrom(names).Draw(t, "like"), rapid.Int64Range(0, 300).Draw(t, "begins"),
			})
			w.TurnPlaced(w.now, uint32(n), &admission.PlacedTurn{
				Key: key(name), Slot: slot, Tokens: tokens, Prompt: promptOf(prompt, tokens),
			})
			delete(latest[1-slot], name)
			delete(rest[1-slot], name)
			latest[slot][name], rest[slot][name] = prompt, tokens-int64(blocks.Reach(len(prompt)))
			for slot := range latest {
				each, want := map[uint64]bool{}, int64(0)
				for name, prompt := range latest[slot] {
					for i, x := range prompt {
						if !each[x] {
							want += int64(blocks.Reach(i+1) - blocks.Reach(i))
						}
						each[x] = true
					}
					want += rest[slot][name]
				}
				if got, _ := w.WorkingSet(slot); got != want {
					t.Fatalf("the working set of %d is %d, want %d", slot, got, want)
				}
			}
			if fault := w.Fault(); fault != "" {
				t.Fatal(fault)
			}
		}
		for _, name := range names {
			w.ConversationEnded(key(name))
		}
		for n := range uint32(40) {
			w.TurnEnded(w.now, n, 0, true)
		}
		for slot := range latest {
			if got, _ := w.WorkingSet(slot); got != 0 || w.Blocks(slot) != 0 {
				t.Fatalf("%d tokens, %d blocks are left", got, w.Blocks(slot))
			}
		}
	})
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
				name := []string{"a", "b"}[n]
				w.TurnPlaced(w.now, n, &admission.PlacedTurn{
					Key: key(name), Slot: slot, Tokens: tokens,
					Prompt: promptOf(w.says(name, tokens, beginning{name, tokens}), tokens),
				})
			}
			place(0, 0, 1000)
			place(1, 1, c.other)
			lease, until := w.Hold(w.now, admission.Turn{
				Key: key("c"), Pool: "m", Home: -1, Tokens: 400, Shared: 352,
				Names: w.says("c", 400, beginning{"a", 352}),
			})
			if w.now = until; c.ends {
				w.TurnEnded(w.now, 0, 0, false)
				place(0, 0, 352)
			}
			called, ok := w.Admit(w.now, func(time.Time, string) []int { return []int{1, 0} })
			if !ok || called != lease {
				t.Fatal("it is not called")
			}
			if at0, at1 := w.Reserved(0), w.Reserved(1); at0 != 48 || at1 != 0 {
				t.Errorf("%d tokens are reserved at its prefix and %d elsewhere, want 48 and 0", at0, at1)
			}
		})
	}
}

// TestSharesMoreThanItHas: where a turn is estimated to have fewer tokens than an earlier prompt's beginning, which it
// begins with too, it needs no room, and is held no less than at once.
func TestSharesMoreThanItHas(t *testing.T) {
	w := newWorld(10*time.Second, 100)
	w.ask("a", "", 90, fleet.PriorityNormal, "", 0, beginning{})
	_, until := w.Hold(w.now, admission.Turn{Key: key("b"), Pool: "m", Home: -1, Tokens: 20, Shared: 50})
	if until.Before(w.now) {
		t.Errorf("it is held until %v before it came", w.now.Sub(until))
	}
	for _, q := range w.Queues() {
		if q.Tokens != 0 {
			t.Errorf("it is said to need %d tokens, want none", q.Tokens)
		}
	}
	if n := w.HeldTokens(); n != 0 {
		t.Errorf("%d tokens are held", n)
	}
}
