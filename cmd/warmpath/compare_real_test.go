package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/sim/calibrate"
	simrig "github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// TestCompareWithEngines does the same against real engines at the addresses in WARMPATH_COMPARE_ENGINES
// (comma-separated), idle, that serve the model in WARMPATH_COMPARE_MODEL. How fast they are is fitted to recorded
// traffic, and the simulator told; the policies must rank alike by the median: of no two that several rounds tell apart
// is the other one better than in virtual time. The mean is the machine's: on one that two engines share with their
// clients a prompt in ten stalls, under any policy. realtest/compare.py starts two engines for it.
func TestCompareWithEngines(t *testing.T) {
	list := os.Getenv("WARMPATH_COMPARE_ENGINES")
	if list == "" {
		t.Skip("it needs engines; name their addresses in WARMPATH_COMPARE_ENGINES, or run realtest/compare.py")
	}
	urls := strings.Split(list, ",")
	model := os.Getenv("WARMPATH_COMPARE_MODEL")
	fleet := fitted(t, urls, model)
	policies := []string{"round_robin", "least_tokens", "consistent_hash", "least_ttft"}
	// median times to first token, a round each, ms
	live, simulated := make([][]float64, len(policies)), make([][]float64, len(policies))
	for round := range comparedRounds {
		c := &compared{trace: talks(uint64(31 + round)), fleet: fleet, load: 0.2}
		var err error
		if c.plan, err = c.fleet.Plan(c.trace, c.load, 0, 1); err != nil {
			t.Fatal(err)
		}
		for i, by := range policies {
			l, s := c.against(t, by, model, fmt.Sprint(by, round, " "), urls, ""), c.simulated(t, by)
			t.Logf("%-16s live       %v", by, l)
			t.Logf("%-16s simulated  %v", "", s)
			live[i], simulated[i] = append(live[i], l.p50), append(simulated[i], s.p50)
		}
	}
	apart := 0
	for i, a := range policies {
		t.Logf("%-16s mean of the medians: live %.1f ms, simulated %.1f ms", a, mean(live[i]), mean(simulated[i]))
		for j, b := range policies[:i] {
			by, sure := difference(live[i], live[j])
			if !sure {
				t.Logf("live %s and %s are not told apart", a, b)
				continue
			}
			apart++
			virtual := mean(simulated[i]) - mean(simulated[j])
			if virtual*by < 0 && math.Abs(virtual) > 0.05*mean(simulated[j]) {
				t.Errorf("%s against %s: live %+.1f ms, simulated %+.1f", a, b, by, virtual)
			}
		}
	}
	if apart == 0 {
		t.Error("no two policies are told apart: the machine is too busy, or the engines are too fast")
	}
}

// Rounds that each policy is played, and how many standard errors a difference must be away from none to be more than
// chance: Student's t, 95 %, seven rounds.
const (
	comparedRounds = 7
	comparedErrors = 2.447
)

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// difference of two policies that were played in the same rounds, and whether it is more than chance.
func difference(a, b []float64) (by float64, sure bool) {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	by = mean(d)
	squares := 0.0
	for _, v := range d {
		squares += (v - by) * (v - by)
	}
	n := float64(len(d))
	return by, math.Abs(by) > comparedErrors*math.Sqrt(squares/(n-1)/n)
}

// talks is what is played.
func talks(seed uint64) *simtrace.Trace {
	g := simtrace.DefaultGenerator()
	g.Conversations, g.Turns, g.System, g.User, g.Answer, g.Think = 20, 4, 400, 200, 4, time.Second
	return g.Trace(seed)
}

// fitted finds how fast engines are, all of them at work as they will be: on a machine that they share one alone is
// faster. Tokens are those of traces, four bytes, whatever the engine's tokenizer makes of them.
func fitted(t *testing.T, urls []string, model string) simrig.Fleet {
	t.Helper()
	c := &compared{trace: talks(22), plan: simtrace.Plan{Stretch: 1}}
	for i := range c.trace.Sessions {
		c.plan.Arrivals = append(c.plan.Arrivals, time.Duration(i)*time.Second)
	}
	file := filepath.Join(t.TempDir(), "traffic.jsonl")
	for round, record := range []string{"", file} { // they warm up first
		c.against(t, "round_robin", model, fmt.Sprint("fit", round, " "), urls, record)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	recording, err := simtrace.ReadRecording(file, in)
	if err != nil {
		t.Fatal(err)
	}
	real, tokens := 0, 0
	for _, q := range recording.Requests {
		real += q.Prompt
	}
	for i := range c.trace.Turns {
		tokens += c.trace.Turns[i].Prompt
	}
	ratio := float64(real) / float64(tokens)
	preset, _ := simrig.PresetNamed("reference")
	fits := calibrate.Fit(recording, preset.Engine)
	if len(fits) != len(urls) {
		t.Fatalf("%d of %d engines were recorded", len(fits), len(urls))
	}
	fleet := simrig.Even(len(urls), preset.Engine)
	for i, f := range fits {
		e := f.Engine
		t.Logf("%s: %.0f tokens/s, a step takes %v and %v for each sequence, first tokens %v; prefill %.0f %% off, "+
			"steps %.0f %%, %v",
			f.Endpoint, e.PrefillTokensPerSecond, e.StepBase, e.StepPerSeq, f.Fixed, 100*f.TTFT, 100*f.ITL, f.Notes)
		e.PrefillTokensPerSecond /= ratio
		e.BlockTokens, e.ChunkTokens, e.CacheTokens = max(1, int(32/ratio)), int(2048/ratio),
			int(float64(e.CacheTokens)/ratio)
		fleet.Endpoints[i].Engine = e
	}
	t.Logf("%.2f of the engines' tokens to one of the trace", ratio)
	return fleet
}
