package route_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
)

// TestStatusInSteps: what is collected in steps lists each endpoint once, those that came between two steps too, and
// none that went.
func TestStatusInSteps(t *testing.T) {
	now := time.Unix(1000, 0)
	r := route.New(route.Config{Policy: func() pick.Policy { return leastttft.New(leastttft.Config{}.WithDefaults()) }})
	names := func(from, to int) (names []string) {
		for i := from; i < to; i++ {
			names = append(names, fmt.Sprint("e", i))
		}
		return names
	}
	declare := func(names []string) {
		d := route.Declared{Source: "s"}
		for _, n := range names {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: n, URL: "http://" + n, Weight: 1})
		}
		r.Observe(now, d)
	}
	for _, tt := range []struct {
		name          string
		before, after []string
	}{
		{"none", nil, nil},
		{"as many as one step has", names(0, 64), names(0, 64)},
		{"some come", names(0, 150), names(0, 170)},
		{"the first go", names(0, 150), names(70, 150)},
		{"all go", names(0, 150), nil},
	} {
		declare(tt.before)
		var s route.Statuses
		steps, more := 1, r.Describe(now, &s)
		declare(tt.after)
		for more {
			steps, more = steps+1, r.Describe(now, &s)
		}
		var got []string
		for _, e := range s.Of {
			got = append(got, e.Endpoint.Name)
		}
		if !slices.Equal(got, tt.after) || len(tt.before) > 64 && steps == 1 {
			t.Errorf("%s: %v in %d steps, want %v", tt.name, got, steps, tt.after)
		}
		if all := r.Status(now); len(all) != len(tt.after) {
			t.Errorf("%s: %d at once, want %d", tt.name, len(all), len(tt.after))
		}
	}
}

// TestWaitIsThatOfCandidates: what the status says of the wait for an endpoint is what the policy is told of it for a
// new prompt, but that the status counts all that is queued, whoever would overtake it. Nothing waits for nothing.
func TestWaitIsThatOfCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, w := newWatched(rapid.SampledFrom([]int{0, 1, 2, 4}).Draw(t, "places"))
		now := time.Unix(1_000_000, 0)
		var open []fleet.Lease
		for i := range rapid.IntRange(1, 12).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond)
			before := map[string]route.EndpointStatus{}
			for _, s := range r.Status(now) {
				before[s.Endpoint.Name] = s
				if s.WaitMs < s.PromptMs || s.Load.Working() == 0 && s.WaitMs != 0 || !(s.PromptMs >= 0) {
					t.Fatalf("%s: prompts for %v ms, a wait of %v ms, load %+v",
						s.Endpoint.Name, s.PromptMs, s.WaitMs, s.Load)
				}
			}
			id := fmt.Sprint("r", i)
			d, err := r.Decide(now, &fleet.Request{
				ID: id, Model: "m", MintedID: id, PromptBytes: rapid.IntRange(1, 100_000).Draw(t, "bytes"),
				Stream: true, MayQueue: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range w.seen.Candidates {
				s := before[c.Name]
				if s.Load.Queued == 0 && math.Abs(s.WaitMs-c.WaitMs) > 1e-6*c.WaitMs ||
					s.WaitMs < c.WaitMs-1e-6*c.WaitMs {
					t.Fatalf("%s: the status says %v ms, the policy is told %v; load %+v",
						c.Name, s.WaitMs, c.WaitMs, s.Load)
				}
			}
			open = append(open, d.Lease)
			if len(open) > 0 && rapid.Bool().Draw(t, "end") {
				r.Observe(now, route.Finished{Lease: open[0], Outcome: fleet.OK})
				open = open[1:]
			}
		}
	})
}

// TestReadyWaitsForPrefillers: with split requests the router is ready once a prefiller is up, or all are known to be
// down: before, the first requests would be served whole (no_prefiller) only because they came early.
func TestReadyWaitsForPrefillers(t *testing.T) {
	tests := []struct {
		name   string
		when   fleet.SplitWhen
		probes string // results: d0 p0 p1, each + for healthy, - for down
		ready  bool
		says   string
	}{
		{"nothing is known", fleet.WhenAlways, "", false, "d0"},
		{
			"decoders only", fleet.WhenAlways, "d0+", false,
			"prefillers are not known to be up yet: p0 is unknown, p1 is unknown",
		},
		{"a prefiller", fleet.WhenAlways, "d0+ p1+", true, ""},
		{"prefillers only", fleet.WhenAlways, "p0+ p1+", false, "d0"},
		{"one down, one to come", fleet.WhenAlways, "d0+ p0-", false, "p1 is unknown"},
		{"all down", fleet.WhenAlways, "d0+ p0- p1-", true, ""},
		{"by time too", fleet.WhenTime, "d0+", false, "p0"},
		{"never split", fleet.WhenNever, "d0+", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			r := route.New(route.Config{
				Policy: func() pick.Policy { return anyPick{} }, Disaggregation: route.Disaggregation{When: tt.when},
			})
			r.Observe(now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
				{Name: "d0", URL: "http://d0", Weight: 1, Role: fleet.RoleDecode, Models: []string{"m"}},
				{Name: "p0", URL: "http://p0", Weight: 1, Role: fleet.RolePrefill, Models: []string{"m"}},
				{Name: "p1", URL: "http://p1", Weight: 1, Role: fleet.RolePrefill, Models: []string{"m"}},
			}})
			for _, probe := range strings.Fields(tt.probes) {
				for range 3 { // as many as make it down
					r.Observe(now, route.Probed{
						Endpoint: probe[:2], Report: fleet.Report{Healthy: probe[2] == '+', Detail: "refused"},
					})
				}
			}
			ready, why := r.Ready(now)
			if ready != tt.ready || !strings.Contains(why, tt.says) {
				t.Errorf("ready %t (%s), want %t (%s)", ready, why, tt.ready, tt.says)
			}
		})
	}
}

// TestReadyWaitsForEachModel: a prefiller of one model does not stand for another's, even with a common decoder, and
// one with unknown models may serve any.
func TestReadyWaitsForEachModel(t *testing.T) {
	tests := []struct {
		name   string
		models map[string][]string // declared, by endpoint; others report them when probed
		probes string
		ready  bool
		says   string
	}{
		{
			"the other model's prefiller",
			map[string][]string{"d0": {"m"}, "d1": {"n"}, "p0": {"m"}, "p1": {"n"}},
			"d0 d1 p0", false, "p1 is unknown",
		},
		{"both", map[string][]string{"d0": {"m"}, "d1": {"n"}, "p0": {"m"}, "p1": {"n"}}, "d0 d1 p0 p1", true, ""},
		{
			"nobody decodes the other model yet",
			map[string][]string{"d0": {"m"}, "d1": {"n"}, "p0": {"m"}, "p1": {"n"}},
			"d0 p0", true, "",
		},
		{
			"a decoder of two models",
			map[string][]string{"d0": {"m", "n"}, "d1": {"n"}, "p0": {"m"}, "p1": {"n"}},
			"d0 p0", false, "p1 is unknown",
		},
		{
			"not said yet",
			map[string][]string{"d0": {"m"}, "d1": {"n"}, "p0": {"m"}},
			"d0 d1 p0", false, "p1 is unknown",
		},
		{
			"not said, and nobody lacks it",
			map[string][]string{"d0": {"m"}, "d1": {"m"}, "p0": {"m"}},
			"d0 d1 p0", true, "",
		},
		{"nobody says", nil, "d0 d1 p0", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			r := route.New(route.Config{
				Policy:         func() pick.Policy { return anyPick{} },
				Disaggregation: route.Disaggregation{When: fleet.WhenAlways},
			})
			var all []fleet.Endpoint
			for _, name := range []string{"d0", "d1", "p0", "p1"} {
				role := fleet.RoleDecode
				if name[0] == 'p' {
					role = fleet.RolePrefill
				}
				all = append(all, fleet.Endpoint{
					Name: name, URL: "http://" + name, Weight: 1, Role: role, Models: tt.models[name],
				})
			}
			r.Observe(now, route.Declared{Source: "s", Endpoints: all})
			for _, name := range strings.Fields(tt.probes) {
				r.Observe(now, route.Probed{Endpoint: name, Report: fleet.Report{Healthy: true}})
			}
			ready, why := r.Ready(now)
			if ready != tt.ready || !strings.Contains(why, tt.says) {
				t.Errorf("ready %t (%s), want %t (%s)", ready, why, tt.ready, tt.says)
			}
		})
	}
}
