package admission_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/admission"
)

// TestAgainstModel: whatever comes in whatever order, a turn is held or placed and never both, each hold ends once, no
// hold outlasts its bound, nothing is held where all conversations that ever came fit, and nothing is left when all is
// over. What is counted of the members is what they take, throughout.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.Int64Range(100, 1000).Draw(t, "room")
		w := newWorld(time.Duration(rapid.IntRange(0, 20).Draw(t, "keeps"))*time.Second, room, room)
		w.engines.returns = time.Duration(rapid.IntRange(0, 20).Draw(t, "returns")) * time.Second
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		largest := map[string]int64{} // the most that each conversation has taken
		ended := map[fleet.Lease]int{}
		elsewhere := false // another router has held turns, which may go before any
		busy := func(name string) int {
			for n := range w.turns {
				if x := &w.turns[n]; x.name == name && !x.over {
					return n
				}
			}
			return -1
		}
		settle := func() {
			for _, n := range w.calls() {
				ended[w.turns[n].hold]++
			}
			if fault := w.Fault(); fault != "" {
				t.Fatal(fault)
			}
			for n := range w.turns {
				x := &w.turns[n]
				if x.over {
					continue
				}
				if held := x.hold != 0 && ended[x.hold] == 0; held == (x.at >= 0) {
					t.Fatalf("turn %d of %s is at %d, held: %v", n, x.name, x.at, held)
				}
				if x.at < 0 && w.now.After(x.until) {
					t.Fatalf("turn %d of %s is held %v beyond its bound", n, x.name, w.now.Sub(x.until))
				}
			}
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			n := busy(name)
			switch {
			case rapid.IntRange(0, 3).Draw(t, "waits") == 0:
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			case rapid.IntRange(0, 5).Draw(t, "elsewhere") == 0: // another router's queue changes, or it leaves
				peer, q := uint64(rapid.IntRange(1, 2).Draw(t, "router")), admission.Queue{Pool: "m"}
				if q.Turns = rapid.IntRange(0, 3).Draw(t, "turns"); q.Turns > 0 {
					q.Tokens = int64(q.Turns) * rapid.Int64Range(1, room/2).Draw(t, "needs")
					q.Until = w.now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "left")) * time.Millisecond)
					q.Tenant = rapid.SampledFrom([]string{"", "x", "z"}).Draw(t, "of tenant")
				}
				if elsewhere = q.Turns > 0 || elsewhere; rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
					w.PeerLeft(peer)
				} else {
					w.PeerQueue(peer, q)
				}
			case n < 0:
				parent, tokens := "", rapid.Int64Range(1, room/2).Draw(t, "tokens")
				if rapid.IntRange(0, 4).Draw(t, "child") == 0 {
					parent = rapid.SampledFrom(names).Draw(t, "parent")
				}
				largest[name] = max(largest[name], tokens)
				n = w.ask(name, parent, tokens, rapid.SampledFrom([]fleet.Priority{
					fleet.PriorityLow, fleet.PriorityNormal, fleet.PriorityHigh,
				}).Draw(t, "priority"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "tenant"),
					rapid.SampledFrom([]float64{0, 1, 3}).Draw(t, "share"),
					beginning{rapid.SampledFrom(names).Draw(t, "like"), rapid.Int64Range(0, room/2).Draw(t, "begins")})
				all := int64(0)
				for _, most := range largest {
					all += most
				}
				if w.turns[n].at < 0 && all <= room-room/20 && !elsewhere {
					t.Fatalf("%s is held, and all that ever came takes %d of %d", name, all, room)
				}
			case w.turns[n].at < 0: // its client leaves
				if w.turns[n].over = true; !w.EndHold(w.turns[n].hold) || w.EndHold(w.turns[n].hold) {
					t.Fatal("a hold did not end once")
				}
				ended[w.turns[n].hold]++
			default:
				tokens := rapid.Int64Range(0, room/2).Draw(t, "took")
				largest[name] = max(largest[name], tokens)
				w.end(n, tokens, rapid.Bool().Draw(t, "kept"))
			}
			settle()
		}
		for n := range w.turns {
			if x := &w.turns[n]; !x.over && x.at >= 0 {
				w.end(n, 0, true)
			}
		}
		w.now = w.now.Add(time.Hour)
		settle()
		for n := range w.turns {
			if x := &w.turns[n]; !x.over && x.at < 0 {
				t.Fatalf("turn %d of %s is still held", n, x.name)
			}
		}
		for lease, times := range ended {
			if times != 1 {
				t.Fatalf("hold %d ended %d times", lease, times)
			}
		}
		if r := w.Reader; r.Held() != 0 || r.HeldTokens() != 0 {
			t.Fatalf("%d holds of %d tokens are left", r.Held(), r.HeldTokens())
		}
		for n := range w.turns {
			if x := &w.turns[n]; !x.over && x.hold != 0 {
				w.end(n, 0, false)
			}
		}
		w.Age(w.now.Add(time.Hour))
		w.RemoveEndpoint(0)
		w.RemoveEndpoint(1)
		if n := w.Lapsed(); n != 0 {
			t.Fatalf("%d conversations are remembered of endpoints that have left", n)
		}
		if n := w.Elsewhere(); n != 0 {
			t.Fatalf("%d queues of other routers are remembered beyond their bounds", n)
		}
		if tenants := w.Tenants(); tenants != 0 {
			t.Fatalf("%d tenants are left", tenants)
		}
		if n := w.HeldTurns(10); len(n) != 0 {
			t.Fatalf("%v are said to wait", n)
		}
		if all := w.Queues(); len(all) != 0 {
			t.Fatalf("%v are said to wait", all)
		}
	})
}
