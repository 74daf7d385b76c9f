package sim_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	simfigures "github.com/warmpath/warmpath/sim/figures"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// splitTraffic generates or reads the second half of a trace; nil without the full traces.
func splitTraffic(b *testing.B, name string) func(seed uint64) *trace.Trace {
	if name == "mixed" {
		g := documents(1).traffic
		return func(seed uint64) *trace.Trace { return g.Trace(seed).Half(2) }
	}
	dir := os.Getenv("WARMPATH_TRACES")
	if dir == "" {
		return nil
	}
	f, err := os.Open(filepath.Join(dir, name+".jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	t, err := trace.Read(name, f, trace.FormatAuto)
	if err != nil {
		b.Fatal(err)
	}
	t = t.Half(2)
	return func(uint64) *trace.Trace { return t }
}

// BenchmarkSplitCells plays eight engines under the two cost-based rules, with roles and without, on the cells of
// docs/results-disagg.md, and reports geometric means over the seeds, for comparing builds. With WARMPATH_TRACES set it
// plays the full traces too.
//
//	go test ./sim -run '^$' -bench SplitCells -benchtime 1x -seeds 8
func BenchmarkSplitCells(b *testing.B) {
	preset, _ := rig.PresetNamed("reference")
	fast := rig.DefaultTransfer()
	slow := fast
	slow.Bandwidth = 1.25e9
	c := policy.Config{Name: policy.Default}.WithDefaults()
	place, err := policy.New(c)
	if err != nil {
		b.Fatal(err)
	}
	for _, cell := range []struct {
		trace string
		link  rig.Transfer
	}{{"mixed", fast}, {"mixed", slow}, {"mooncake_conversation", fast}, {"mooncake_synthetic", fast}, {
		"coding_agent", fast,
	}} {
		draw := splitTraffic(b, cell.trace)
		if draw == nil {
			continue
		}
		for _, load := range []float64{0.4, 0.7} {
			for _, when := range []fleet.SplitWhen{fleet.WhenTime, fleet.WhenFree} {
				b.Run(fmt.Sprintf("%s/%g/%g/%s", cell.trace, cell.link.Bandwidth/1e9, load, when), func(b *testing.B) {
					var logs map[string]float64
					for b.Loop() {
						logs = map[string]float64{}
						for seed := range uint64(*pairs) {
							t := draw(seed + 1)
							r := drive.Replay{
								Trace: t, Fleet: rig.Even(8, preset.Engine), Policy: place, Queue: policy.Queue(c),
								Content: true, Load: load, Seed: seed + 1, Transfer: cell.link,
								Disaggregation: route.Disaggregation{When: when},
							}
							if when == fleet.WhenTime {
								n := prefillers(8, preset.Engine, t.Demand(preset.Engine.BlockTokens))
								r.Fleet = rig.Split(n, 8-n, preset.Engine)
							}
							o, err := r.Run()
							if err != nil {
								b.Fatal(err)
							}
							f := simfigures.Of(&r, o, simfigures.Objective{})
							for name, x := range map[string]float64{
								"mean": f.TTFT.Mean, "p90": f.TTFT.P90, "p99": f.TTFT.P99, "hit": f.HitRate,
								"itl-p99": f.Gap.P99, "last": f.E2E.Mean,
							} {
								logs[name] += math.Log(x) / float64(*pairs)
							}
						}
					}
					for name, x := range logs {
						b.ReportMetric(math.Exp(x), name)
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
