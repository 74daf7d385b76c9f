package sim_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// chats is a trace in Mooncake's format: 60 conversations of up to six turns, each turn two blocks longer than the
// previous one.
func chats(t testing.TB, seed uint64) *simtrace.Trace {
	t.Helper()
	type line struct {
		Timestamp float64 `json:"timestamp"`
		Input     int     `json:"input_length"`
		Output    int     `json:"output_length"`
		IDs       []int   `json:"hash_ids"`
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	var lines []line
	ids := make([][]int, 60)
	next := 1
	for at := range 240 {
		c := rng.IntN(len(ids))
		if len(ids[c]) > 12 {
			ids[c] = nil
		}
		if len(ids[c]) == 0 {
			ids[c] = []int{0} // the common prefix
		}
		for range 2 {
			ids[c] = append(ids[c], next)
			next++
		}
		lines = append(lines, line{
			float64(at * 1000), 512*len(ids[c]) - 100, 20 + rng.IntN(60), append([]int(nil), ids[c]...),
		})
	}
	var text strings.Builder
	for _, l := range lines {
		if err := json.NewEncoder(&text).Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	trace, err := simtrace.Read("chats", strings.NewReader(text.String()), simtrace.FormatMooncake)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// replay is the mean time to first token of a trace with that policy.
func replay(t testing.TB, name string, seed uint64) float64 {
	t.Helper()
	var fleet rig.Fleet
	for i := range 4 {
		c := engine.DefaultConfig()
		if i == 3 {
			c.PrefillTokensPerSecond /= 3
		}
		fleet.Endpoints = append(fleet.Endpoints, rig.Endpoint{Name: string(rune('a' + i)), Engine: c})
	}
	r := drive.Replay{
		Trace: chats(t, seed), Fleet: fleet, Content: true, Load: 0.7, Seed: seed, Oracle: name == drive.OracleName,
	}
	if !r.Oracle {
		make, err := policy.New(policy.Config{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		r.Policy = make
	}
	out, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, p := range out.Turns {
		if p.Failed {
			t.Fatalf("%s: turn %d failed", name, p.Turn)
		}
		if r.Oracle && p.Reason != "oracle" {
			t.Fatalf("turn %d went for reason %s", p.Turn, p.Reason)
		}
		sum += p.TTFT
	}
	return sum.Seconds() * 1000 / float64(len(out.Turns))
}

// TestOracleKnowsBest: on an uneven fleet no policy answers sooner on average than the oracle, and results are
// repeatable.
func TestOracleKnowsBest(t *testing.T) {
	total := func(name string) (sum float64) {
		for seed := uint64(1); seed <= 5; seed++ {
			sum += replay(t, name, seed) / 5
		}
		return sum
	}
	oracle := total(drive.OracleName)
	if again := total(drive.OracleName); again != oracle {
		t.Errorf("%v, then %v", oracle, again)
	}
	for _, name := range []string{"round_robin", "least_tokens", "mooncake.algorithm1", "smg.cache_aware", "lmetric"} {
		if got := total(name); oracle > got {
			t.Errorf("the oracle needs %.1f ms, %s %.1f", oracle, name, got)
		}
	}
}
