package basic

import (
	"math"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
	"pgregory.net/rapid"
)

// byHash are the hash policies; without load they agree.
var byHash = [...]string{"rendezvous", "consistent_hash"}

func TestHashPlacementDependsOnNothingElse(t *testing.T) {
	for _, name := range byHash {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			v := policytest.Views(false).Draw(t, "view")()
			unload(v.Candidates)
			p := makeBasic(name)
			want := v.Candidates[policytest.Place(p, v, &fleet.Request{}).Index].Name
			// Another replica, another order of declaration, another random seed.
			shuffled := slices.Clone(v.Candidates)
			policytest.Rand(rapid.Uint64().Draw(t, "shuffle")).Shuffle(len(shuffled), func(i, j int) {
				shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
			})
			w := policytest.Seed(&pick.View{Candidates: shuffled, Home: -1, Parent: -1, Hash: v.Hash}, 99)
			if got := shuffled[policytest.Place(makeBasic(name), w, &fleet.Request{}).Index].Name; got != want {
				t.Fatalf("here %s, there %s", want, got)
			}
		}))
	}
}

func TestRemovingAnEndpointMovesOnlyItsOwn(t *testing.T) {
	for _, name := range byHash {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			cs := policytest.Fleets(false).Filter(func(cs []pick.Candidate) bool {
				return len(cs) > 1
			}).Draw(t, "fleet")
			unload(cs)
			gone := rapid.IntRange(0, len(cs)-1).Draw(t, "gone")
			rest := slices.Delete(slices.Clone(cs), gone, gone+1)
			p := makeBasic(name)
			for seed := range uint64(50) {
				before := cs[policytest.Place(p, policytest.View(cs, seed), &fleet.Request{}).Index].Name
				after := rest[policytest.Place(p, policytest.View(rest, seed), &fleet.Request{}).Index].Name
				if before != after && before != cs[gone].Name {
					t.Fatalf("conversation %d moved from %s to %s when %s went", seed, before, after, cs[gone].Name)
				}
			}
		}))
	}
}

// A conversation keeps its endpoint when another one's weight falls, and can only move to one whose weight rises.
func TestWeightMovesOnlyWhatItMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := policytest.Fleets(false).Draw(t, "fleet")
		raised := rapid.IntRange(0, len(cs)-1).Draw(t, "raised")
		more := slices.Clone(cs)
		more[raised].Weight *= rapid.Float64Range(1, 10).Draw(t, "times")
		p := makeBasic("rendezvous")
		for seed := range uint64(50) {
			before, after := policytest.Place(p, policytest.View(cs, seed), &fleet.Request{}).Index,
				policytest.Place(p, policytest.View(more, seed), &fleet.Request{}).Index
			if before != after && after != raised {
				t.Fatalf("conversation %d moved from %d to %d when %d grew", seed, before, after, raised)
			}
		}
	})
}

// The conversations of an excluded endpoint spread over all others.
func TestConversationsOfALostEndpointSpread(t *testing.T) {
	cs := policytest.Same(9)
	p := makeBasic("rendezvous")
	counts := make([]int, 8)
	for seed := range uint64(40_000) {
		if policytest.Place(p, policytest.View(cs, seed), &fleet.Request{}).Index == 8 {
			counts[policytest.Place(p, policytest.View(cs[:8], seed), &fleet.Request{}).Index]++
		}
	}
	if got := policytest.ChiSquare(counts, cs[:8]); got > 24.32 {
		t.Errorf("chi-square %.1f over 7 degrees of freedom: %v", got, counts)
	}
}

// Keys that are small numbers, as a test or a bad hash would give, and consecutive hashes spread too.
func TestPoorHashesSpread(t *testing.T) {
	cs := policytest.Same(8)
	for i := range cs {
		cs[i].Key = uint64(i)
	}
	p := makeBasic("rendezvous")
	counts := make([]int, len(cs))
	for hash := range uint64(40_000) {
		v := policytest.View(cs, 1)
		v.Hash = hash
		counts[policytest.Place(p, v, &fleet.Request{}).Index]++
	}
	if got := policytest.ChiSquare(counts, cs); got > 24.32 {
		t.Errorf("chi-square %.1f over 7 degrees of freedom: %v", got, counts)
	}
}

func TestConsistentHashKeepsTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := policytest.Fleets(false).Draw(t, "fleet")
		factor := rapid.SampledFrom([]float64{1, 1.1, 1.25, 2, 10}).Draw(t, "factor")
		unload(cs)
		p := NewConsistentHash(ConsistentHashConfig{LoadFactor: factor})
		total := 0.0
		for i := range cs {
			total += cs[i].Weight
		}
		hash := rapid.Uint64().Draw(t, "hash")
		for n := range 60 {
			v := policytest.View(cs, uint64(n))
			if n%3 > 0 {
				v.Hash = hash // a hot conversation
			}
			got := policytest.Place(p, v, &fleet.Request{}).Index
			cs[got].Load.Requests++
			if most := math.Ceil(factor * float64(n+1) * cs[got].Weight / total * (1 + 1e-12)); float64(
				cs[got].Load.Requests) > most {
				t.Fatalf("endpoint %d holds %d of %d, at most %v", got, cs[got].Load.Requests, n+1, most)
			}
		}
	})
}

func TestConsistentHashTakesTheFirstWithRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := policytest.Views(false).Draw(t, "view")()
		p := NewConsistentHash(ConsistentHashConfig{}.WithDefaults()).(consistentHash)
		got := policytest.Place(p, v, &fleet.Request{})
		// The naive way: sort by rendezvous, take the first with room.
		r, b := byhash.OrderFor(v), p.boundFor(v)
		order := slices.Clone(v.Candidates)
		slices.SortFunc(order, func(x, y pick.Candidate) int {
			if r.Of(&x).Before(r.Of(&y)) {
				return -1
			}
			return 1
		})
		want, reason := order[0].Name, reasons.ConsistentHash
		for i := range order {
			if b.room(&order[i]) {
				want = order[i].Name
				if i > 0 {
					reason = reasons.ConsistentHashOverflow
				}
				break
			}
		}
		if v.Candidates[got.Index].Name != want || got.Reason != reason {
			t.Fatalf("got %s for %s, want %s for %s", v.Candidates[got.Index].Name, got.Reason, want, reason)
		}
		if !b.room(&v.Candidates[got.Index]) {
			t.Fatal("picked one without room")
		}
	})
}

func TestHotConversationOverflows(t *testing.T) {
	cs := policytest.Same(4)
	p := makeBasic("consistent_hash")
	went := map[pick.Reason]int{}
	counts := make([]int, 4)
	for range 40 {
		c := policytest.Place(p, policytest.View(cs, 1), &fleet.Request{})
		cs[c.Index].Load.Requests++
		counts[c.Index]++
		went[c.Reason]++
	}
	if got := slices.Max(counts); got != 13 { // ceil(1.25 * 40 / 4)
		t.Errorf("the home holds %d of 40: %v", got, counts)
	}
	if went[reasons.ConsistentHash] != 13 || went[reasons.ConsistentHashOverflow] != 27 {
		t.Errorf("reasons %v", went)
	}
}

func unload(cs []pick.Candidate) {
	for i := range cs {
		cs[i].Load = fleet.Load{}
	}
}
