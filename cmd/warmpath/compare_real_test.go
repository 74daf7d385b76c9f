package main

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/sim"
)

// TestCompareWithEngines does the same against real engines at the addresses in WARMPATH_COMPARE_ENGINES (comma-separated), all alike
// and idle, that serve the model in WARMPATH_COMPARE_MODEL. How fast they are is measured first, and the simulator told; the
// policies must rank alike. realtest/compare.py starts two engines for it.
func TestCompareWithEngines(t *testing.T) {
	list := os.Getenv("WARMPATH_COMPARE_ENGINES")
	if list == "" {
		t.Skip("it needs engines; name their addresses in WARMPATH_COMPARE_ENGINES, or run realtest/compare.py")
	}
	urls := strings.Split(list, ",")
	model := os.Getenv("WARMPATH_COMPARE_MODEL")
	engine := fitted(t, urls[0], model)
	g := sim.DefaultGenerator()
	g.Conversations, g.Turns, g.System, g.User, g.Answer, g.Think = 40, 4, 400, 150, 8, time.Second
	c := &compared{trace: g.Trace(21), fleet: sim.EvenFleet(len(urls), engine), load: 0.4}
	var err error
	if c.plan, err = c.trace.Plan(c.fleet, c.load, 0, 1); err != nil {
		t.Fatal(err)
	}
	policies := []string{"round_robin", "least_tokens", "consistent_hash", "least_ttft"}
	var live, simulated []comparedFigures
	for _, by := range policies {
		live = append(live, c.against(t, by, model, by+" ", urls))
		simulated = append(simulated, c.simulated(t, by))
		t.Logf("%-16s live       %v", by, live[len(live)-1])
		t.Logf("%-16s simulated  %v", "", simulated[len(simulated)-1])
	}
	if l, s := ranked(policies, live, simulated), ranked(policies, simulated, live); !slices.Equal(l, s) {
		t.Errorf("live they rank %v, simulated %v", l, s)
	}
}

// fitted measures an idle engine by prompts of several lengths that it has not seen, and describes it to the simulator. Tokens are
// those of traces, four bytes, whatever the engine's tokenizer makes of them.
func fitted(t *testing.T, url, model string) sim.Config {
	t.Helper()
	target := play.Target{URL: url, Model: model, IgnoreEOS: true, Salt: "fit ", Client: http.DefaultClient}
	var x, y, steps []float64
	real, tokens := 0, 0
	for round := range 4 {
		for _, size := range []int{100, 400, 800, 1200} {
			g := sim.DefaultGenerator()
			g.Conversations, g.Turns, g.System, g.User, g.Answer = 1, 0, size, 1, 32
			trace := g.Trace(uint64(1000 + size + round))
			plan := sim.Plan{Stretch: 1, Arrivals: make([]time.Duration, 1)}
			if err := target.PlayTrace(t.Context(), trace, plan, func(_ int, out play.Turn) {
				if out.Err != nil {
					t.Fatal(out.Err)
				}
				if round == 0 {
					return // it may still be warming up
				}
				x, y = append(x, float64(trace.Turns[0].Prompt)), append(y, out.TTFT.Seconds())
				if n := out.OutputTokens - 1; n > 0 {
					steps = append(steps, (out.Took-out.TTFT).Seconds()/float64(n))
				}
				real, tokens = real+out.PromptTokens, tokens+trace.Turns[0].Prompt
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	perToken := slope(x, y)
	if perToken <= 0 || len(steps) == 0 {
		t.Fatalf("longer prompts take no longer: %v s at %v tokens", y, x)
	}
	slices.Sort(steps)
	ratio := float64(real) / float64(tokens)
	preset, _ := sim.PresetNamed("reference")
	c := preset.Engine
	c.PrefillTokensPerSecond = 1 / perToken
	c.StepBase = time.Duration(steps[len(steps)/2] * 1e9)
	c.StepPerSeq = c.StepBase / 10
	c.Slots, c.BlockTokens = 32, max(1, int(32/ratio))
	c.ChunkTokens, c.CacheTokens = int(2048/ratio), int(32_768/ratio)
	t.Logf("fitted: %.0f prefill tokens/s, a step takes %v, %.2f of the engine's tokens to one of the trace", c.PrefillTokensPerSecond, c.StepBase, ratio)
	return c
}

// slope of the least-squares line.
func slope(x, y []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	n := float64(len(x))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
