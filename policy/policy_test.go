package policy

import (
	"slices"
	"strconv"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
	"pgregory.net/rapid"
)

func TestEveryPolicyPicksACandidateForAReasonOfItsOwn(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			p := makeFor(t, name)
			for range 4 {
				v := policytest.Views(false).Draw(t, "view")()
				got := policytest.Place(p, v, &fleet.Request{})
				if got.Index < 0 || got.Index >= len(v.Candidates) {
					t.Fatalf("picked %d of %d", got.Index, len(v.Candidates))
				}
				if !slices.Contains(reasons.All(), got.Reason) {
					t.Fatalf("reason %q is not in Reasons", got.Reason)
				}
			}
		}))
	}
}

func TestSameSeedSamePick(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			p, q := makeFor(t, name), makeFor(t, name)
			for range 4 {
				v := policytest.Views(false).Draw(t, "view")
				if a, b := policytest.Place(p, v(), &fleet.Request{}),
					policytest.Place(q, v(), &fleet.Request{}); a != b {
					t.Fatalf("first %v, then %v", a, b)
				}
			}
		}))
	}
}

func TestPickLeavesTheViewAlone(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			v := policytest.Views(false).Draw(t, "view")()
			before, home := slices.Clone(v.Candidates), v.Home
			policytest.Place(makeFor(t, name), v, &fleet.Request{})
			if !slices.Equal(before, v.Candidates) || home != v.Home {
				t.Fatal("a pick changed the view")
			}
		}))
	}
}

// The seventh promise of the design: a burst of identical cold prompts does not go to one endpoint. Within a burst each
// pick is reserved before the next and, for hash policies, has its own hash.
func TestBurstOfColdPromptsSpreads(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			const endpoints, requests = 4, 40
			counts := policytest.Play(make1(t, name), policytest.Same(endpoints), requests, true)
			for i, n := range counts {
				if n == 0 || n > requests/2 {
					t.Errorf("endpoint %d got %d of %d: %v", i, n, requests, counts)
				}
			}
			switch name {
			case "least_requests", "least_tokens", "round_robin", "session":
				if slices.Max(counts) != slices.Min(counts) {
					t.Errorf("got %v, want equal shares", counts)
				}
			}
		})
	}
}

// Ties are not biased: over many requests to an idle fleet each endpoint gets its share of weight. The limits are the
// 99.9 % points of the chi-square distribution; seeds are fixed, so the outcome is too.
func TestTiesAreDrawnByWeight(t *testing.T) {
	limits := map[int]float64{4: 16.27, 8: 24.32, 3: 13.82}
	fleets := map[string][]pick.Candidate{
		"equal":   policytest.Same(8),
		"unequal": policytest.Idle(1, 2, 4, 1),
		"ramp":    policytest.Idle(1, 1, 0.1),
	}
	for _, name := range namesOf(ours()) { // rivals ignore weights
		for _, kind := range []string{"equal", "unequal", "ramp"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				cs := fleets[kind]
				counts := make([]int, len(cs))
				fresh, err := New(Config{Name: name})
				if err != nil {
					t.Fatal(err)
				}
				for i := range 20_000 {
					// A new policy each time, so that round_robin shows its first turn.
					counts[policytest.Place(fresh(), policytest.View(cs, uint64(i)), &fleet.Request{}).Index]++
				}
				if name == "round_robin" && kind != "equal" {
					if slices.Min(counts) == 0 {
						t.Errorf("first turns %v: one endpoint never has the first", counts)
					}
					return // first turns favour heavy endpoints; its own test checks shares
				}
				if got := policytest.ChiSquare(counts, cs); got > limits[len(cs)] {
					t.Errorf("chi-square %.1f of %v for weights %v", got, counts, weights(cs))
				}
			})
		}
	}
}

func TestNoAllocationPerPick(t *testing.T) {
	for _, name := range Names() {
		p, v, r := pick.Install(make1(t, name)), policytest.View(policytest.Idle(1, 2, 3, 1), 1), &fleet.Request{}
		policytest.PlaceBy(p, v, r)
		if got := testing.AllocsPerRun(100, func() { policytest.PlaceBy(p, v, r) }); got != 0 {
			t.Errorf("%s: %v allocations a pick", name, got)
		}
	}
}

func TestNamesAreSortedAndDescribed(t *testing.T) {
	if !slices.IsSorted(Names()) {
		t.Errorf("not sorted: %v", Names())
	}
	for _, name := range Names() {
		if Describe(name) == "" {
			t.Errorf("%s has no description", name)
		}
	}
	if got := Describe("nothing"); got != "" {
		t.Errorf("Describe of an unknown name is %q", got)
	}
	if !slices.Contains(Names(), Default) {
		t.Errorf("default %q is not a policy", Default)
	}
	listed := reasons.All()
	slices.Sort(listed)
	if len(slices.Compact(listed)) != len(reasons.All()) {
		t.Error("a reason is listed twice")
	}
}

func TestPoolsShareNoState(t *testing.T) {
	f, err := New(Config{Name: "round_robin"})
	if err != nil {
		t.Fatal(err)
	}
	p, q := f(), f()
	cs := policytest.Same(5)
	for i := range 3 {
		policytest.Place(p, policytest.View(cs, uint64(i)), &fleet.Request{})
	}
	// q starts anew: with equal seeds it behaves as a new policy.
	r := make1(t, "round_robin")
	for i := range 10 {
		if a, b := policytest.Place(q, policytest.View(cs, uint64(i)), &fleet.Request{}),
			policytest.Place(r, policytest.View(cs, uint64(i)), &fleet.Request{}); a != b {
			t.Fatalf("pick %d: %v, alone %v", i, a, b)
		}
	}
}

func weights(cs []pick.Candidate) []float64 {
	ws := make([]float64, len(cs))
	for i := range cs {
		ws[i] = cs[i].Weight
	}
	return ws
}

func BenchmarkPick(b *testing.B) {
	for _, name := range Names() {
		for _, n := range []int{4, 64, 512} {
			for _, weighted := range []bool{false, true} {
				if weighted && name != "rendezvous" && name != "consistent_hash" {
					continue
				}
				label := name + "/" + strconv.Itoa(n)
				cs := policytest.Same(n)
				for i := range cs {
					policytest.Reserve(&cs[i], int64(byhash.Mix(uint64(i))%5000), 100)
				}
				if weighted {
					label += "/weighted"
					cs[0].Weight = 2
				}
				b.Run(label, func(b *testing.B) {
					p, v, r := pick.Install(make1(b, name)), policytest.View(cs, 1), &fleet.Request{}
					b.ReportAllocs()
					for b.Loop() {
						v.Hash++
						policytest.PlaceBy(p, v, r)
					}
				})
			}
		}
	}
}
