package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	simdrive "github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

func drive(t testing.TB, policyName string, rates []float64, seed uint64, ids bool, w trace.Workload) []simdrive.Turnout {
	t.Helper()
	newPolicy, err := policy.New(policy.Config{Name: policyName}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1_000_000, 0)
	d := simdrive.Drive{Router: route.New(route.Config{Policy: newPolicy, PolicyName: policyName}), Model: "m", Start: start, Seed: seed, IDs: ids}
	declared := route.Declared{Source: "sim"}
	for i, rate := range rates {
		c := engine.DefaultConfig()
		c.PrefillTokensPerSecond = rate
		e, err := engine.New(c, seed+uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		d.Engines, d.Names = append(d.Engines, e), append(d.Names, fmt.Sprint("e", i))
		declared.Endpoints = append(declared.Endpoints, fleet.Endpoint{Name: d.Names[i], URL: "http://" + d.Names[i], Weight: 1})
	}
	d.Router.Observe(start, declared)
	for _, n := range d.Names {
		d.Router.Observe(start, route.Probed{Endpoint: n, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}, CacheTokens: 120_000, Slots: 16, BlockTokens: 16}})
	}
	turns := d.Play(w, w.Conversations(seed))
	if s := d.Router.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
		t.Errorf("%s: at the end: %+v", policyName, s)
	}
	return turns
}

func hitRate(turns []simdrive.Turnout) float64 {
	prompt, cached := 0, 0
	for _, x := range turns {
		prompt, cached = prompt+x.PromptTokens, cached+x.CachedTokens
	}
	return float64(cached) / float64(prompt)
}

func mean(turns []simdrive.Turnout) time.Duration {
	var sum time.Duration
	for _, x := range turns {
		sum += x.TTFT
	}
	return sum / time.Duration(len(turns))
}

// TestDrivePlaysEveryTurnOnce: all turns of all conversations are sent in order and answered in full, and the same seed gives
// the same run.
func TestDrivePlaysEveryTurnOnce(t *testing.T) {
	w := trace.DefaultWorkload()
	turns := drive(t, "session", []float64{9000, 9000, 9000, 9000}, 1, true, w)
	next := map[int]int{}
	for _, x := range turns {
		if x.Turn != next[x.Conversation] || x.Failed || x.TTFT <= 0 || x.Took < x.TTFT || x.CachedTokens >= x.PromptTokens {
			t.Fatalf("%+v", x)
		}
		next[x.Conversation]++
	}
	for i, c := range w.Conversations(1) {
		if next[i] != len(c.Turns) {
			t.Errorf("conversation %d: %d of %d turns", i, next[i], len(c.Turns))
		}
	}
	again := drive(t, "session", []float64{9000, 9000, 9000, 9000}, 1, true, w)
	for i := range turns {
		if turns[i] != again[i] {
			t.Fatalf("turn %d differs: %+v, %+v", i, turns[i], again[i])
		}
	}
}

// TestStayingBeatsTakingTurns on the fleet of the table in docs/policies.md.
func TestStayingBeatsTakingTurns(t *testing.T) {
	w, rates := trace.DefaultWorkload(), []float64{9000, 9000, 9000, 9000}
	stay, turns := drive(t, "session", rates, 1, true, w), drive(t, "round_robin", rates, 1, true, w)
	if hitRate(stay) < hitRate(turns)+0.1 || mean(stay) > mean(turns)/2 {
		t.Errorf("session: hit %.3f, mean %v; round robin: hit %.3f, mean %v", hitRate(stay), mean(stay), hitRate(turns), mean(turns))
	}
}

func BenchmarkDrive(b *testing.B) {
	for _, name := range policy.Names() {
		b.Run(name, func(b *testing.B) {
			var turns []simdrive.Turnout
			for b.Loop() {
				turns = drive(b, name, []float64{9000, 9000, 9000, 9000}, 1, true, trace.DefaultWorkload())
			}
			b.ReportMetric(100*hitRate(turns), "hit-%")
			b.ReportMetric(float64(mean(turns).Milliseconds()), "ttft-mean-ms")
			b.ReportMetric(float64(simdrive.Quantile(turns, 0.9).Milliseconds()), "ttft-p90-ms")
			b.ReportMetric(float64(simdrive.Quantile(turns, 0.99).Milliseconds()), "ttft-p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
