package sim_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	simfigures "github.com/warmpath/warmpath/sim/figures"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// cells are situations beside the scenarios in which one mechanism or another should show.
func cells() []scenario {
	chats := func(change func(g *trace.Generator)) trace.Generator {
		g := trace.Chats()
		change(&g)
		return g
	}
	return []scenario{
		{name: "host_cache", fleet: fleetOf(4, func(_ int, c *engine.Config) {
			c.CacheTokens, c.HostCacheTokens, c.HostTokensPerSecond = 24_000, 400_000, 60_000
		}), work: chats(func(g *trace.Generator) { g.Conversations, g.PerSecond, g.Think = 400, 4, 20*time.Second })},
		{
			name: "recovered", fleet: fleetOf(4, nil), slow: []rig.Spell{{At: 10 * time.Second, For: 20 * time.Second, Times: 5}},
			work: chats(func(g *trace.Generator) { g.Conversations = 400 }),
		},
		{name: "slot_order", fleet: fleetOf(4, func(_ int, c *engine.Config) { c.SlotOrder, c.Slots, c.ChunkTokens = true, 8, 512 }), work: chats(func(g *trace.Generator) {
			g.Conversations, g.PerSecond, g.User = 200, 2, 1500
		})},
		{name: "unstreamed", whole: 0.9, fleet: fleetOf(4, func(i int, c *engine.Config) {
			if i == 3 {
				c.PrefillTokensPerSecond = 3_000
			}
		}), work: chats(func(g *trace.Generator) { g.Conversations = 300 })},
		{name: "fleet_of_64", fleet: fleetOf(64, nil), work: chats(func(g *trace.Generator) { g.Conversations, g.PerSecond = 2400, 60 })},
		{name: "first_minute", fleet: fleetOf(8, nil), work: chats(func(g *trace.Generator) {
			g.Conversations, g.PerSecond, g.Prefixes, g.System, g.Turns = 120, 2, 3, 20_000, 2
		})},
	}
}

// TestCells: nothing fails, and least_ttft is not behind round_robin by p90.
func TestCells(t *testing.T) {
	for _, s := range cells() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if racing {
				s.work.Conversations = min(s.work.Conversations, 40)
			}
			us, turns := s.pooled(t, ours(t), 1)
			s.served(t, turns)
			if them, _ := s.pooled(t, byName(t, "round_robin", true), 1); us.p90 > them.p90 && !racing {
				t.Errorf("p90 is %.1f ms, round_robin has %.1f", us.p90, them.p90)
			}
		})
	}
}

// mechanism is something that least_ttft does beside the least, and how to play without it.
type mechanism struct {
	name    string
	without func(r *drive.Replay)
}

// mechanisms are those that can be switched off.
func mechanisms() []mechanism {
	return []mechanism{
		{"queue", func(r *drive.Replay) { r.Queue = route.Queue{} }},
	}
}

var pairs = flag.Int("seeds", 8, "pairs of runs that BenchmarkMechanisms plays of each cell")

// BenchmarkMechanisms plays every scenario and cell with and without each mechanism, from the same seeds, and gives what the figures
// are without it as multiples of those with it: the geometric mean over the seeds, and half the width of its 95 % interval. Where the
// environment variable WARMPATH_TRACES says where the full traces are, the 54 cells of docs/results.md are played too, their second half.
//
//	go test ./sim -run '^$' -bench 'Mechanisms/queue' -benchtime 1x -seeds 8
func BenchmarkMechanisms(b *testing.B) {
	for _, m := range mechanisms() {
		for _, s := range append(scenarios(), cells()...) {
			b.Run(m.name+"/"+s.name, func(b *testing.B) {
				m.measure(b, func(seed uint64, change ...func(*drive.Replay)) figures {
					_, turns := s.play(b, ours(b), seed, change...)
					return sum(turns, len(s.fleet))
				})
			})
		}
		for _, c := range traceCells() {
			b.Run(m.name+"/"+c.name, func(b *testing.B) { m.measure(b, c.reader(b)) })
		}
	}
}

// measure plays pairs of runs.
func (m *mechanism) measure(b *testing.B, run func(seed uint64, change ...func(*drive.Replay)) figures) {
	var mean, p90, p99, hit paired
	for b.Loop() {
		mean, p90, p99, hit = paired{}, paired{}, paired{}, paired{}
		for seed := range uint64(*pairs) {
			with, without := run(seed+1), run(seed+1, m.without)
			mean.add(with.mean, without.mean)
			p90.add(with.p90, without.p90)
			p99.add(with.p99, without.p99)
			hit.add(with.hit, without.hit)
		}
	}
	for name, p := range map[string]*paired{"mean": &mean, "p90": &p90, "p99": &p99, "hit": &hit} {
		times, half := p.interval()
		b.ReportMetric(times, name+"-x")
		b.ReportMetric(half, name+"-±")
	}
	b.ReportMetric(0, "ns/op")
}

// traceCell is one of the 54 cells.
type traceCell struct {
	name, trace string
	fleet       rig.Fleet
	load        float64
}

// traceCells are those of docs/results.md, none without the full traces.
func traceCells() []traceCell {
	if os.Getenv("WARMPATH_TRACES") == "" {
		return nil
	}
	reference, _ := rig.PresetNamed("reference")
	var out []traceCell
	for _, name := range []string{"mooncake_synthetic", "mooncake_conversation", "coding_agent"} {
		for _, n := range []int{4, 8, 32} {
			for _, load := range []float64{0.4, 0.7, 0.9} {
				out = append(out,
					traceCell{fmt.Sprintf("%s/even%d/%g", name, n, load), name, rig.Even(n, reference.Engine), load},
					traceCell{fmt.Sprintf("%s/mixed%d/%g", name, n, load), name, rig.Mixed(n, reference.Engine), load})
			}
		}
	}
	return out
}

// reader reads the trace, and gives what plays it.
func (c *traceCell) reader(b *testing.B) func(seed uint64, change ...func(*drive.Replay)) figures {
	f, err := os.Open(filepath.Join(os.Getenv("WARMPATH_TRACES"), c.trace+".jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	t, err := trace.Read(c.trace, f, trace.FormatAuto)
	if err != nil {
		b.Fatal(err)
	}
	t, by := t.Half(2), ours(b)
	return func(seed uint64, change ...func(*drive.Replay)) figures {
		r := drive.Replay{
			Trace: t, Fleet: c.fleet, Policy: by.make, PolicyName: by.name, Queue: policy.Queue(policy.Config{Name: by.name}), Content: true,
			Load: c.load, Seed: seed,
		}
		for _, change := range change {
			change(&r)
		}
		o, err := r.Run()
		if err != nil {
			b.Fatal(err)
		}
		x := simfigures.Of(&r, o, simfigures.Objective{})
		return figures{hit: x.HitRate, mean: x.TTFT.Mean, p90: x.TTFT.P90, p99: x.TTFT.P99}
	}
}

// paired gathers ratios of two figures of one seed, as logarithms.
type paired struct{ n, sum, squares float64 }

func (p *paired) add(with, without float64) {
	x := math.Log(without / with)
	p.n, p.sum, p.squares = p.n+1, p.sum+x, p.squares+x*x
}

// interval is the geometric mean of the ratios, and half the width of its 95 % interval by Student's t.
func (p *paired) interval() (times, half float64) {
	mean := p.sum / p.n
	if p.n < 2 {
		return math.Exp(mean), math.Inf(1)
	}
	deviation := math.Sqrt(max(0, p.squares-p.n*mean*mean) / (p.n - 1))
	return math.Exp(mean), math.Exp(mean) * student95(int(p.n)-1) * deviation / math.Sqrt(p.n)
}

// student95 is the two-sided 95 % point of Student's t.
func student95(freedom int) float64 {
	table := []float64{12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13}
	if freedom <= len(table) {
		return table[freedom-1]
	}
	return 1.96 + 2.5/float64(freedom) // within a hundredth
}

// TestPaired reckons an interval by hand: ratios of 1.1 and 1.21 lie a tenth around 1.154.
func TestPaired(t *testing.T) {
	var p paired
	p.add(100, 110)
	p.add(100, 121)
	times, half := p.interval()
	if want := math.Sqrt(1.1 * 1.21); math.Abs(times-want) > 1e-9 || math.Abs(half-want*12.71*math.Log(1.1)/2) > 1e-3 {
		t.Error(fmt.Sprint(times, half))
	}
}
