package route_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
)

// anyPick picks at random, so that it reaches every candidate.
type anyPick struct{}

func (anyPick) Needs() pick.Needs { return pick.Needs{Name: "any"} }

func (anyPick) Hooks() pick.Hooks { return pick.Hooks{} }

func (anyPick) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: v.Rand.IntN(len(v.Candidates)), Reason: "any"}
}

// TestAccountsAgainstNaiveModel plays random requests, ends, repeated ends, reports and changes of the fleet, and
// compares the accounts with a naive list of open requests. When all have ended, all accounts are empty.
func TestAccountsAgainstNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := route.New(route.Config{Policy: func() pick.Policy { return anyPick{} }})
		now := time.Unix(0, 0)
		type opened struct {
			d         route.Decision
			prefilled bool
		}
		open := map[fleet.Lease]*opened{}
		var ended []fleet.Lease
		names := []string{"a", "b", "c", "d"}
		finish := func(l fleet.Lease, o fleet.Outcome) {
			if e := r.Observe(now, route.Finished{Lease: l, Outcome: o}); e.Ended == nil ||
				e.Ended.Decision.Lease != l {
				t.Fatalf("ended %+v", e.Ended)
			}
			delete(open, l)
			ended = append(ended, l)
		}
		anyOpen := func(t *rapid.T) fleet.Lease {
			if len(open) == 0 {
				t.Skip("nothing is open")
			}
			leases := make([]fleet.Lease, 0, len(open))
			for l := range open {
				leases = append(leases, l)
			}
			lowest := leases[0]
			for _, l := range leases {
				lowest = min(lowest, l)
			}
			return lowest
		}
		t.Repeat(map[string]func(*rapid.T){
			"declare": func(t *rapid.T) {
				var d route.Declared
				d.Source = "s"
				for _, n := range names {
					if rapid.Bool().Draw(t, n) {
						d.Endpoints = append(d.Endpoints, fleet.Endpoint{
							Name: n, URL: "http://" + n, Weight: float64(rapid.IntRange(0, 2).Draw(t, "weight")),
						})
					}
				}
				r.Observe(now, d)
			},
			"probe": func(t *rapid.T) {
				r.Observe(now, route.Probed{Endpoint: rapid.SampledFrom(names).Draw(t, "name"), Report: fleet.Report{
					Healthy: rapid.Bool().Draw(t, "healthy"),
				}})
			},
			"route": func(t *rapid.T) {
				req := fleet.Request{
					ID: "r", Seed: rapid.Uint64().Draw(t, "seed"),
					Class:       fleet.Class(rapid.IntRange(0, 2).Draw(t, "class")),
					Session:     rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(t, "session"),
					MintedID:    fmt.Sprint(len(ended), len(open)),
					PromptBytes: rapid.IntRange(0, 100_000).Draw(t, "bytes"),
				}
				d, err := r.Decide(now, &req)
				if err != nil {
					return
				}
				if open[d.Lease] != nil || d.Lease == 0 && len(ended) > 0 {
					t.Fatalf("lease %d is given out twice", d.Lease)
				}
				open[d.Lease] = &opened{d: d.Decision}
			},
			"first byte": func(t *rapid.T) {
				l := anyOpen(t)
				r.Observe(now, route.FirstByte{Lease: l})
				open[l].prefilled = true
			},
			"finish": func(t *rapid.T) {
				finish(anyOpen(t), fleet.Outcome(rapid.IntRange(0, int(fleet.Abandoned)).Draw(t, "outcome")))
			},
			"finish twice": func(t *rapid.T) {
				if len(ended) == 0 {
					t.Skip("nothing has ended")
				}
				if e := r.Observe(now, route.Finished{
					Lease: ended[rapid.IntRange(0, len(ended)-1).Draw(t, "which")],
				}); e.Ended != nil {
					t.Fatal("a lease ended twice")
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(t *rapid.T) {
				requests := map[string]int{}
				busy := map[string]bool{}
				for _, o := range open {
					requests[o.d.Endpoint.Name]++
					busy[o.d.Endpoint.Name] = busy[o.d.Endpoint.Name] || !o.prefilled
				}
				for _, s := range r.Status(now) {
					n := s.Endpoint.Name
					if s.Load.Requests != requests[n] {
						t.Fatalf("%s has %d requests on its account, want %d", n, s.Load.Requests, requests[n])
					}
					if s.Load.PrefillTokens < 0 || s.Load.DecodeTokens < 0 || !busy[n] && s.Load.PrefillTokens != 0 {
						t.Fatalf("%s: %+v", n, s.Load)
					}
					delete(requests, n)
				}
				for n, k := range requests {
					t.Fatalf("%s was forgotten with %d requests open", n, k)
				}
				if got := r.Stats().Leases; got != len(open) {
					t.Fatalf("%d leases, want %d", got, len(open))
				}
			},
		})
		for len(open) > 0 {
			for l := range open {
				finish(l, fleet.OK)
			}
		}
		r.Observe(now, route.Declared{Source: "s"})
		if left := r.Status(now); len(left) != 0 {
			t.Fatalf("endpoints that left are still there: %+v", left)
		}
	})
}

// TestDecisionsAllocateNothing: a turn that goes on is placed and ends without garbage, where its conversation keeps
// room among those of its endpoint (admission), where that does not pay, and without admission.
func TestDecisionsAllocateNothing(t *testing.T) {
	first, leastTTFT := func() pick.Policy { return firstLeast{} }, func() pick.Policy {
		return leastttft.New(leastttft.Config{}.WithDefaults())
	}
	for _, tt := range []struct {
		name             string
		policy           func() pick.Policy
		endpoints        int
		cache            int64
		admission, keeps bool
	}{
		{"keeps", first, 64, 1_000_000, true, true},
		{"too small", first, 64, 400, true, false},
		{"without admission", first, 64, 1_000_000, false, false},
		{"least_ttft, 4", leastTTFT, 4, 1_000_000, false, false},
		{"least_ttft, 64", leastTTFT, 64, 1_000_000, false, false},
		{"least_ttft, a shortlist", leastTTFT, 1000, 1_000_000, false, false},
	} {
		r, req := fleetOf(tt.endpoints, tt.cache, tt.admission, tt.policy)
		now := time.Unix(0, 0)
		turn := func() {
			now = now.Add(time.Second)
			d, err := r.Decide(now, req)
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Second)
			r.Observe(now, route.FirstByte{Lease: d.Lease})
			r.Observe(now, route.Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 2000, OutputTokens: 9}})
		}
		for range 100 { // tables grow to the size that they need
			turn()
		}
		if got := testing.AllocsPerRun(1000, turn); got > 0 {
			t.Errorf("%s: %.0f allocations a request", tt.name, got)
		}
		if s := r.Status(now)[0]; (s.WorkingSet > 0) != tt.keeps {
			t.Errorf("%s: the conversation takes %d tokens", tt.name, s.WorkingSet)
		}
	}
}

func fleetOf(n int, cacheTokens int64, admission bool, policy func() pick.Policy) (*route.Router, *fleet.Request) {
	r := route.New(route.Config{Policy: policy, Admission: admission})
	now := time.Unix(0, 0)
	d := route.Declared{Source: "s"}
	for i := range n {
		d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: fmt.Sprint("e", i), URL: "http://e", Weight: 1})
	}
	r.Observe(now, d)
	for _, e := range d.Endpoints {
		r.Observe(now, route.Probed{Endpoint: e.Name, Report: fleet.Report{
			Healthy: true, CacheTokens: cacheTokens, Models: []fleet.Model{{ID: "m", ContextTokens: 100_000}},
		}})
	}
	return r, &fleet.Request{
		ID: "r", Class: fleet.Turn, Seed: 1, Model: "m", Session: "s", PromptBytes: 8000, Stream: true, MayQueue: true,
		MayHold: true,
	}
}

func BenchmarkRoute(b *testing.B) {
	for _, n := range []int{4, 64, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, req := fleetOf(n, 1_000_000, false, func() pick.Policy { return firstLeast{} })
			now := time.Unix(0, 0)
			b.ReportAllocs()
			for b.Loop() {
				d, _ := r.Decide(now, req)
				r.Observe(now, route.Finished{Lease: d.Lease})
			}
		})
	}
}
