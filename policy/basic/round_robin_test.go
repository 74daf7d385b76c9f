package basic

import (
	"math"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
	"pgregory.net/rapid"
)

func TestRoundRobinGivesEachItsTurn(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 64} {
		p, cs := makeBasic("round_robin"), policytest.Same(n)
		var order []int
		for i := range 5 * n {
			order = append(order, policytest.Place(p, policytest.View(cs, uint64(i)), &fleet.Request{}).Index)
		}
		for round := range 5 {
			if got := order[round*n : (round+1)*n]; !slices.Equal(got, order[:n]) {
				t.Fatalf("%d endpoints, round %d went %v, the first %v", n, round, got, order[:n])
			}
		}
		slices.Sort(order[:n])
		for i, got := range order[:n] {
			if i != got {
				t.Fatalf("%d endpoints: a round visits %v", n, order[:n])
			}
		}
	}
}

// At any time each endpoint has had its share of weight within two turns, wherever it started.
func TestRoundRobinIsSmooth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ws := rapid.SliceOfN(rapid.Float64Range(0.1, 10), 1, 8).Draw(t, "weights")
		cs, total := policytest.Idle(ws...), 0.0
		for _, w := range ws {
			total += w
		}
		p := makeBasic("round_robin")
		seed := rapid.Uint64().Draw(t, "seed")
		counts := make([]int, len(cs))
		for n := 1; n <= 200; n++ {
			counts[policytest.Place(p, policytest.View(cs, seed+uint64(n)), &fleet.Request{}).Index]++
			for i, c := range counts {
				if fair := float64(n) * ws[i] / total; math.Abs(float64(c)-fair) > float64(len(cs)) {
					t.Fatalf("after %d turns endpoint %d had %d, fair is %.1f", n, i, c, fair)
				}
			}
		}
	})
}

// Endpoints join, leave and change weight at random; none waits for long, and credits stay bounded.
func TestRoundRobinWithComingAndGoing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewRoundRobin().(*roundRobin)
		seed := rapid.Uint64().Draw(t, "seed")
		for range rapid.IntRange(1, 60).Draw(t, "changes") {
			cs := policytest.Fleets(false).Draw(t, "fleet")
			policytest.Place(p, policytest.View(cs, seed), &fleet.Request{})
			seed++
		}
		cs := policytest.Same(5)
		counts := make([]int, len(cs))
		for range 3 * len(cs) {
			counts[policytest.Place(p, policytest.View(cs, seed), &fleet.Request{}).Index]++
			seed++
		}
		if slices.Min(counts) < 1 || slices.Max(counts) > 5 {
			t.Fatalf("after the changes 15 turns went %v", counts)
		}
	})
}

func TestRoundRobinAfterAnAbsence(t *testing.T) {
	p, cs := makeBasic("round_robin"), policytest.Same(3)
	policytest.Play(p, cs, 7, false)
	policytest.Play(p, cs[:2], 1000, false)
	counts := policytest.Play(p, cs, 30, false)
	if slices.Max(counts)-slices.Min(counts) > 2 {
		t.Errorf("after an absence the turns went %v", counts)
	}
}

func TestRoundRobinSlotIsTakenOver(t *testing.T) {
	p := NewRoundRobin().(*roundRobin)
	cs := policytest.Same(2)
	policytest.Play(p, cs, 9, false)
	cs[1].Key = byhash.Mix(12345) // another endpoint took the slot
	p.turns.At(1, policytest.Candidate(1, 1).Key).credit = -1
	counts := policytest.Play(p, cs, 10, false)
	if p.turns.Peek(1, cs[1].Key) == nil || slices.Min(counts) < 4 {
		t.Errorf("the slot's new endpoint got %v", counts)
	}
}
