package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	simengine "github.com/warmpath/warmpath/sim/engine"
	simfigures "github.com/warmpath/warmpath/sim/figures"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// drawnSplit is a random fleet with roles and its traffic.
type drawnSplit struct {
	prefill, decode int
	traffic         trace.Generator
	load            float64
	engine          simengine.Config
	transfer        rig.Transfer
	seed            uint64
}

// draw draws one, from nearly idle to nearly overloaded.
func draw(seed uint64) drawnSplit {
	rng := rand.New(rand.NewPCG(seed, 0x647261776e))
	one := func(of ...float64) float64 { return of[rng.IntN(len(of))] }
	preset, _ := rig.PresetNamed("reference")
	d := drawnSplit{
		engine: preset.Engine, transfer: rig.DefaultTransfer(), traffic: trace.DefaultGenerator(), seed: seed,
	}
	fleets := [][2]int{{1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 1}, {5, 3}, {6, 2}, {4, 4}, {3, 5}, {12, 4}, {2, 6}}
	fleet := fleets[rng.IntN(len(fleets))]
	d.prefill, d.decode = fleet[0], fleet[1]
	g := &d.traffic
	g.Conversations, g.Turns = int(one(200, 500, 1000)), one(1, 2, 4, 10)
	g.System, g.Prefixes = int(one(100, 1000, 4000, 10_000)), int(one(1, 4, 20, 200))
	g.User, g.Answer, g.Burst = one(50, 200, 1000, 4000), one(30, 150, 400, 1000), one(1, 1, 4)
	g.Think = time.Duration(one(0.5, 5, 30) * float64(time.Second))
	if rng.IntN(2) == 0 {
		g.Long, g.LongTokens = one(0.02, 0.1, 0.4), one(4000, 16_000, 60_000)
	}
	d.load, d.transfer.Bandwidth = one(0.2, 0.4, 0.6, 0.8, 0.95), one(64e9, 64e9, 12e9, 3e9, 1.25e9)
	if rng.IntN(10) < 3 {
		d.engine.CacheTokens = int(one(100_000, 300_000, 1_000_000))
	}
	return d
}

// documents is the traffic "mixed" of docs/results-disagg.md at a load that no cell there has.
func documents(seed uint64) drawnSplit {
	preset, _ := rig.PresetNamed("reference")
	g := trace.DefaultGenerator()
	g.Conversations, g.Turns, g.System, g.Prefixes, g.User, g.Answer, g.Think, g.Long = 1500, 4, 1000, 20, 200, 400,
		5*time.Second, 0.1
	return drawnSplit{
		prefill: 5, decode: 3, traffic: g, load: 0.85, engine: preset.Engine,
		transfer: rig.DefaultTransfer(), seed: seed,
	}
}

// play returns the mean times to the first and the last token, in ms.
func (d *drawnSplit) play(b *testing.B, how route.Disaggregation) [2]float64 {
	b.Helper()
	c := policy.Config{Name: policy.Default}.WithDefaults()
	place, err := policy.New(c)
	if err != nil {
		b.Fatal(err)
	}
	r := drive.Replay{
		Trace: d.traffic.Trace(d.seed), Fleet: rig.Split(d.prefill, d.decode, d.engine), Policy: place,
		Queue: policy.Queue(c), Content: true, Load: d.load, Seed: d.seed, Transfer: d.transfer, Disaggregation: how,
	}
	o, err := r.Run()
	if err != nil {
		b.Fatal(fmt.Errorf("%+v: %w", *d, err))
	}
	f := simfigures.Of(&r, o, simfigures.Objective{})
	return [2]float64{f.TTFT.Mean, f.E2E.Mean}
}

// BenchmarkDrawnSplits compares the rule time with never and always splitting, on fleets, traffic and links that
// nothing was tuned on, as a multiple of the better of them. Run it with -benchtime 1x.
func BenchmarkDrawnSplits(b *testing.B) {
	for _, set := range []struct {
		name string
		draw func(seed uint64) drawnSplit
		n    int
	}{{"drawn", draw, 100}, {"documents", documents, 16}} {
		b.Run(set.name, func(b *testing.B) {
			for b.Loop() {
				var ratios, ms [2][]float64
				for seed := range uint64(set.n) {
					d := set.draw(seed + 1)
					got, always := d.play(b, route.Disaggregation{When: fleet.WhenTime}),
						d.play(b, route.Disaggregation{When: fleet.WhenAlways})
					threshold := d.play(b, route.Disaggregation{When: fleet.WhenTokens, Threshold: 4096})
					for i := range got {
						ms[i], ratios[i] = append(ms[i], got[i]), append(ratios[i], got[i]/min(always[i], threshold[i]))
					}
				}
				for i, what := range []string{"ttft", "last"} {
					logs, above, below := 0.0, 0, 0
					for _, x := range ratios[i] {
						logs += math.Log(x)
						if x > 1.1 {
							above++
						} else if x < 0.9 {
							below++
						}
					}
					b.ReportMetric(math.Exp(logs/float64(set.n)), what+"-times")
					b.ReportMetric(slices.Max(ratios[i]), what+"-most-times")
					b.ReportMetric(float64(above), what+"-above-10%")
					b.ReportMetric(float64(below), what+"-below-10%")
					b.ReportMetric(slices.Max(ms[i]), what+"-most-ms")
				}
			}
		})
	}
}
