package fair

import (
	"testing"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/policytest"
	"pgregory.net/rapid"
)

func TestDrawSkips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := policytest.Fleets(false).Draw(t, "fleet")
		skip := rapid.IntRange(-1, len(cs)-1).Draw(t, "skip")
		got := Draw(policytest.Rand(rapid.Uint64().Draw(t, "seed")), cs, skip)
		if len(cs) == 1 && skip == 0 {
			if got != pick.None {
				t.Fatalf("drew %d with nobody left", got)
			}
			return
		}
		if got == skip || got < 0 || got >= len(cs) {
			t.Fatalf("drew %d of %d, skipping %d", got, len(cs), skip)
		}
	})
}

func TestLeastPrefersTheSmallerBurdenAndDrawsEquals(t *testing.T) {
	cs := policytest.Idle(1, 3, 1)
	cs[2].Load.Requests = 1
	counts := make([]int, len(cs))
	for seed := range uint64(4000) {
		counts[Least(policytest.View(cs, seed), Requests)]++
	}
	if counts[2] != 0 {
		t.Errorf("the loaded one was picked %d times", counts[2])
	}
	if got := policytest.ChiSquare(counts[:2], cs[:2]); got > 10.83 { // 99.9 % of chi-square, one degree of freedom
		t.Errorf("equals of weights 1 and 3 got %v", counts[:2])
	}
	// 2 requests of weight 3 are fewer per weight than 1 of weight 1.
	cs[0].Load.Requests, cs[1].Load.Requests = 1, 2
	if got := Least(policytest.View(cs, 1), Requests); got != 1 {
		t.Errorf("picked %d, want 1", got)
	}
}

func TestLowestKnowsNoWeights(t *testing.T) {
	cs := policytest.Idle(1, 100, 1)
	cs[2].Load.Requests = 1
	counts := make([]int, 2)
	for seed := range uint64(4000) {
		counts[Lowest(policytest.View(cs, seed), Outstanding)]++
	}
	if got := policytest.ChiSquare(counts, policytest.Same(2)); got > 10.83 {
		t.Errorf("equals got %v", counts)
	}
	if fewest, most, total := Spread(cs); fewest != 0 || most != 1 || total != 1 {
		t.Errorf("spread %d, %d, %d", fewest, most, total)
	}
}
