package basic

import (
	"math"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/policytest"
	"pgregory.net/rapid"
)

func TestLeastNeverPicksTheMoreLoaded(t *testing.T) {
	per := map[string]func(c *pick.Candidate) float64{
		"least_requests": func(c *pick.Candidate) float64 { return float64(c.Load.Requests) / c.Weight },
		"least_tokens":   func(c *pick.Candidate) float64 { return float64(c.Load.Work()) / c.Weight },
	}
	for _, name := range []string{"least_requests", "least_tokens"} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			v := policytest.Views(false).Draw(t, "view")()
			got := policytest.Place(makeBasic(name), v, &fleet.Request{}).Index
			for i := range v.Candidates {
				if a, b := per[name](&v.Candidates[got]), per[name](&v.Candidates[i]); a > b {
					t.Fatalf("picked %d with %v per weight, %d has %v", got, a, i, b)
				}
			}
		}))
	}
}

func TestLeastCounts(t *testing.T) {
	tests := []struct {
		name   string
		policy string
		loads  []fleet.Load
		weight []float64
		want   int
	}{
		{
			"requests, not tokens", "least_requests",
			[]fleet.Load{{Requests: 2}, {Requests: 1, PrefillTokens: 9e6}},
			[]float64{1, 1},
			1,
		},
		{
			"tokens, not requests", "least_tokens",
			[]fleet.Load{{Requests: 1, PrefillTokens: 9e6}, {Requests: 30, DecodeTokens: 5}},
			[]float64{1, 1},
			1,
		},
		{
			"decode counts as much as prefill", "least_tokens",
			[]fleet.Load{{DecodeTokens: 10}, {PrefillTokens: 9}},
			[]float64{1, 1},
			1,
		},
		{
			"context is no work", "least_tokens",
			[]fleet.Load{{ContextTokens: 0, DecodeTokens: 2}, {ContextTokens: 9e6, DecodeTokens: 1}},
			[]float64{1, 1},
			1,
		},
		{
			"half the load at a quarter of the weight is more", "least_tokens",
			[]fleet.Load{{PrefillTokens: 100}, {PrefillTokens: 50}},
			[]float64{4, 1},
			0,
		},
		{
			"the engine's queue breaks a tie", "least_tokens",
			[]fleet.Load{{PrefillTokens: 5, EngineWaiting: 3}, {PrefillTokens: 5, EngineWaiting: 2}},
			[]float64{1, 1},
			1,
		},
		{
			"the engine's queue does not outvote the books", "least_tokens",
			[]fleet.Load{{PrefillTokens: 4, EngineWaiting: 300}, {PrefillTokens: 5}},
			[]float64{1, 1},
			0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := makeBasic(tt.policy)
			for seed := range uint64(20) {
				cs := policytest.Idle(tt.weight...)
				for i := range cs {
					cs[i].Load = tt.loads[i]
				}
				if got := policytest.Place(p, policytest.View(cs, seed), &fleet.Request{}).Index; got != tt.want {
					t.Fatalf("seed %d: got %d, want %d", seed, got, tt.want)
				}
			}
		})
	}
}

func TestPowerOfTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := policytest.Views(false).Draw(t, "view")
		first, second := two(v())
		n := len(v().Candidates)
		if n == 1 {
			if first != 0 || second != pick.None {
				t.Fatalf("drew %d and %d of one", first, second)
			}
			return
		}
		if first == second || min(first, second) < 0 || max(first, second) >= n {
			t.Fatalf("drew %d and %d of %d", first, second, n)
		}
		// Equal views draw the same two.
		got := policytest.Place(powerOfTwo{}, v(), &fleet.Request{}).Index
		if got != first && got != second {
			t.Fatalf("picked %d, drew %d and %d", got, first, second)
		}
		cs := v().Candidates
		other := first + second - got
		a, b := float64(cs[got].Load.Work())/cs[got].Weight, float64(cs[other].Load.Work())/cs[other].Weight
		if a > b {
			t.Fatalf("picked %d with work %v, the other had %v", got, a, b)
		}
		if a == b && float64(cs[got].Load.Requests)/cs[got].Weight > float64(cs[other].Load.Requests)/cs[other].Weight {
			t.Fatalf("picked %d with more requests for the same work", got)
		}
	})
}

func TestPowerOfTwoNeverPicksTheBusiestOfMany(t *testing.T) {
	cs := policytest.Same(6)
	for i := range cs {
		policytest.Reserve(&cs[i], int64(100*i), 0)
	}
	counts := policytest.Play(makeBasic("power_of_two"), cs, 5000, false)
	if counts[5] != 0 {
		t.Errorf("the busiest of all was picked %d times", counts[5])
	}
	if !slices.IsSortedFunc(counts, func(a, b int) int { return b - a }) {
		t.Errorf("got %v, want fewer for the busier", counts)
	}
}

func TestRandomFollowsWeights(t *testing.T) {
	cs := policytest.Idle(1, 5, 0.5, 3.5)
	policytest.Reserve(&cs[1], 1e6, 1e6) // load is irrelevant
	if got := policytest.ChiSquare(policytest.Play(makeBasic("random"), cs, 50_000, false), cs); got > 16.27 {
		t.Errorf("chi-square %.1f over 3 degrees of freedom", got)
	}
}

// With reservations and equal requests, loads end up in proportion to weight.
func TestLoadsFollowWeights(t *testing.T) {
	for _, name := range []string{"least_requests", "least_tokens", "power_of_two", "session", "round_robin"} {
		cs := policytest.Idle(1, 2, 4, 3)
		const n = 10_000
		counts := policytest.Play(makeBasic(name), cs, n, true)
		for i := range cs {
			want := n * cs[i].Weight / 10
			if math.Abs(float64(counts[i])-want) > 0.01*n {
				t.Errorf("%s: endpoint %d got %d, want about %v", name, i, counts[i], want)
			}
		}
	}
}
