package rig

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

// TestPlanKeepsTheLoad: requests arrive at the rate at which their work is the given share.
func TestPlanKeepsTheLoad(t *testing.T) {
	fleet := Mixed(8, round())
	for _, name := range []string{"mooncake_conversation", "coding_agent"} {
		tr := excerpt(t, name)
		for _, load := range []float64{0.4, 0.9} {
			p, err := fleet.Plan(tr, load, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			rate := load * fleet.Capacity(p.Demand)
			got := float64(len(tr.Turns)) / (p.Gap.Seconds() * 4) // four sessions without a parent
			if !tr.Closed {
				got = float64(len(p.Arrivals)) / slices.Max(p.Arrivals).Seconds()
			}
			if math.Abs(got/rate-1) > 0.06 {
				t.Errorf("%s: %v requests a second at load %v, want %v", name, got, load, rate)
			}
		}
	}
	recorded, err := fleet.Plan(excerpt(t, "mooncake_synthetic"), 0, 2, 1)
	if want := excerpt(t, "mooncake_synthetic").Turns[59].At / 2; err != nil || recorded.Arrivals[59] != want ||
		recorded.Load <= 0 {
		t.Errorf("twice as fast: %v at %v, want %v: %v", recorded.Load, recorded.Arrivals[59], want, err)
	}
}

func TestPlanFaults(t *testing.T) {
	closed, open := excerpt(t, "coding_agent"), excerpt(t, "mooncake_synthetic")
	once, _ := trace.Read("t", strings.NewReader(`{"timestamp":0,"input_length":10,"output_length":3,"hash_ids":[1]}`),
		trace.FormatAuto)
	for _, c := range []struct {
		trace       *trace.Trace
		load, speed float64
		want        string
	}{
		{closed, 0, 1, "no common clock"},
		{open, -1, 0, "load must be above 0"},
		{open, math.NaN(), 0, "load must be above 0"},
		{open, 0, math.Inf(1), "speed must be above 0"},
		{once, 0.5, 0, "the same time"},
		{&trace.Trace{}, 0.5, 0, "no turn"},
	} {
		if _, err := Even(1, round()).Plan(c.trace, c.load, c.speed, 1); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("load %v, speed %v: %v, want %q", c.load, c.speed, err, c.want)
		}
	}
}

func TestFleetFaults(t *testing.T) {
	two := func(change func(f *Fleet)) Fleet {
		f := Even(2, round())
		change(&f)
		return f
	}
	for _, c := range []struct {
		fleet Fleet
		want  string
	}{
		{Fleet{}, "1..4096 endpoints, got 0"},
		{two(func(f *Fleet) { f.Endpoints[1].Name = "e0" }), "a name of its own"},
		{two(func(f *Fleet) { f.Endpoints[1].Name = "e\n1" }), "without control characters"},
		{two(func(f *Fleet) { f.Endpoints[1].Name = "e\xff" }), "text in UTF-8"},
		{two(func(f *Fleet) { f.Endpoints[1].Start = -1 }), "before the run"},
		{
			two(func(f *Fleet) { f.Endpoints[0].Start, f.Endpoints[1].Start = 1, 1 }),
			"no endpoint is there at the start",
		},
		{two(func(f *Fleet) { f.Endpoints[1].Outages = []Outage{{5, 0}} }), "failures come in order"},
		{two(func(f *Fleet) { f.Endpoints[1].Outages = []Outage{{5, 10}, {14, 1}} }), "failures come in order"},
		{
			two(func(f *Fleet) { f.Endpoints[1].Slowdowns = []Slowdown{{5, 10, 2}, {14, 1, 2}} }),
			"slow spells come in order",
		},
		{two(func(f *Fleet) { f.Endpoints[1].Slowdowns = []Slowdown{{5, 10, 0}} }), "0 excluded"},
		{two(func(f *Fleet) { f.Endpoints[1].Engine.Slots = 0 }), "slots must be at least 1"},
	} {
		if err := c.fleet.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for _, p := range Presets() {
		if err := Even(3, p.Engine).Validate(); err != nil || p.Source == "" {
			t.Errorf("%s: %v, source %q", p.Name, err, p.Source)
		}
	}
	// 1,000 prompt tokens and 10 answer tokens a turn: 1 s and 10 × 1/8 ms.
	d := trace.Demand{Turns: 4, Prompt: 6000, Ideal: 2000, Output: 40}
	if got, want := Mixed(4, round()).Capacity(d), 3/1.00125+1/(3*1.00125); math.Abs(got-want) > 1e-9 {
		t.Errorf("capacity %v, want %v", got, want)
	}
}

// round is an engine with simple figures: 1,000 tokens per second, a step of 1 ms.
func round() engine.Config {
	return engine.Config{
		PrefillTokensPerSecond: 1000, ChunkTokens: 100_000, CacheTokens: 640_000, BlockTokens: 64, Slots: 8,
		StepBase: time.Millisecond,
	}
}

// excerpt is a part of a published trace.
func excerpt(t testing.TB, name string) *trace.Trace {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "trace", "testdata", "traces", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, err := trace.Read(name, f, trace.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
