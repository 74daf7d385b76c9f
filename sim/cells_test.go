package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	simfigures "github.com/warmpath/warmpath/sim/figures"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// cells are situations besides the scenarios: set-ups that people run, and that those do not have.
func cells() []scenario {
	chats := func(change func(g *trace.Generator)) trace.Generator {
		g := trace.Chats()
		change(&g)
		return g
	}
	prose := drive.Kind{TokenBytes: 4, Starts: 0.93}
	// where a tokenizer gives each digit a token, as Qwen's does
	numbers := drive.Kind{TokenBytes: 2, Starts: 0.3, Digits: 0.6}
	return []scenario{
		{name: "host_cache", fleet: fleetOf(4, func(_ int, c *engine.Config) {
			c.CacheTokens, c.HostCacheTokens, c.HostTokensPerSecond = 24_000, 400_000, 60_000
		}), work: chats(func(g *trace.Generator) { g.Conversations, g.PerSecond, g.Think = 400, 4, 20*time.Second })},
		{
			name: "recovered", fleet: fleetOf(4, nil),
			slow: []rig.Slowdown{{At: 10 * time.Second, For: 20 * time.Second, Times: 5}},
			work: chats(func(g *trace.Generator) { g.Conversations = 400 }),
		},
		{
			name:  "slot_order",
			fleet: fleetOf(4, func(_ int, c *engine.Config) { c.SlotOrder, c.Slots, c.ChunkTokens = true, 8, 512 }),
			work: chats(func(g *trace.Generator) {
				g.Conversations, g.PerSecond, g.User = 200, 2, 1500
			}),
		},
		{name: "unstreamed", whole: 0.9, fleet: fleetOf(4, func(i int, c *engine.Config) {
			if i == 3 {
				c.PrefillTokensPerSecond = 3_000
			}
		}), work: chats(func(g *trace.Generator) { g.Conversations = 300 })},
		{name: "fleet_of_64", fleet: fleetOf(64, nil), work: chats(func(g *trace.Generator) {
			g.Conversations, g.PerSecond = 2400, 60
		})},
		{name: "first_minute", fleet: fleetOf(8, nil), work: chats(func(g *trace.Generator) {
			g.Conversations, g.PerSecond, g.Prefixes, g.System, g.Turns = 120, 2, 3, 20_000, 2
		})},
		{name: "two_small", fleet: fleetOf(2, func(_ int, c *engine.Config) {
			c.PrefillTokensPerSecond, c.ChunkTokens, c.CacheTokens = 2_500, 512, 64_000
			c.Slots, c.StepBase, c.StepPerSeq = 4, 30*time.Millisecond, time.Millisecond
		}), work: chats(func(g *trace.Generator) {
			g.Conversations, g.PerSecond, g.Turns, g.Think = 120, 0.037, 6, time.Minute
			g.Prefixes, g.System, g.User, g.Answer = 3, 800, 150, 400
		})},
		{
			name: "few_prompts", fleet: fleetOf(4, nil), work: single(3200, 40, 0, 400, 100),
			talks: beginning(6, 0.5, 10_000),
		},
		{name: "essays", whole: 1, fleet: fleetOf(6, nil), work: single(500, 2.5, 100, 12_000, 300)},
		{name: "documents", whole: 1, fleet: fleetOf(4, func(i int, c *engine.Config) {
			if i == 3 {
				c.PrefillTokensPerSecond = 3_000
			}
		}), work: single(600, 5, 300, 3000, 40)},
		{
			name: "compiles", fleet: fleetOf(4, nil), slow: []rig.Slowdown{{At: 0, For: 30 * time.Second, Times: 30}},
			work: chats(func(g *trace.Generator) { g.Conversations, g.PerSecond = 1500, 3 }),
		},
		{
			name: "compiles_whole", whole: 1, fleet: fleetOf(4, nil),
			slow: []rig.Slowdown{{At: 0, For: 30 * time.Second, Times: 30}},
			work: chats(func(g *trace.Generator) { g.Conversations, g.PerSecond = 500, 3 }),
		},
		{
			name: "hiccups", fleet: fleetOf(4, nil), slow: []rig.Slowdown{
				{At: 10 * time.Second, For: time.Second, Times: 50},
				{At: 30 * time.Second, For: time.Second, Times: 50},
				{At: 50 * time.Second, For: time.Second, Times: 50},
			},
			work: chats(func(g *trace.Generator) { g.Conversations = 400 }),
		},
		{name: "reasoning", fleet: fleetOf(4, nil), work: chats(func(g *trace.Generator) {
			g.Kept, g.Answer, g.PerSecond, g.Turns, g.User = false, 1500, 0.5, 8, 200
		})},
		{
			name: "tables", kinds: []drive.Kind{prose, numbers}, fleet: fleetOf(4, nil),
			work: single(800, 8, 300, 3000, 40),
		},
		{name: "behind_one_address", fleet: fleetOf(2, func(_ int, c *engine.Config) {
			c.AtOnce, c.ChunkTokens, c.Slots, c.CacheTokens = true, 256, 64, 4_000_000
		}), work: chats(func(g *trace.Generator) {
			g.Conversations, g.PerSecond, g.User, g.System = 300, 6, 4000, 200
		})},
		{name: "short_uneven", fleet: fleetOf(4, func(i int, c *engine.Config) {
			if i >= 2 {
				*c = c.Slower(4)
			}
		}), work: single(1000, 20, 64, 200, 30)},
		{name: "reasoning_uneven_caches", unlimited: true, fleet: fleetOf(4, func(i int, c *engine.Config) {
			if c.Slots, c.CacheTokens = 64, 40_000; i >= 2 {
				c.CacheTokens = 200_000
			}
		}), work: chats(func(g *trace.Generator) {
			g.Kept, g.PerSecond, g.System, g.User, g.Answer, g.Turns = false, 1, 300, 200, 2500, 2
		})},
		{
			name: "adapters", kinds: []drive.Kind{prose, numbers}, adapters: true,
			fleet: fleetOf(4, func(_ int, c *engine.Config) { c.CacheTokens = 80_000 }),
			work:  chats(func(g *trace.Generator) { g.Conversations, g.PerSecond, g.Think = 400, 3, 10*time.Second }),
		},
	}
}

// TestCells: nothing fails, and the p90 of least_ttft is not above that of round_robin.
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

var pairs = flag.Int("seeds", 8, "pairs of runs that BenchmarkMechanisms plays of each cell")

// BenchmarkMechanisms plays every scenario and cell with and without each mechanism, from the same seeds. It reports
// the figures without it as multiples of those with it: the geometric mean over the seeds, and half the width of its 95
// % interval. With the full traces in the directory of the environment variable WARMPATH_TRACES it also plays the
// second halves of the 54 cells of docs/results.md, and of the traces with split requests.
//
//	go test ./sim -run '^$' -bench 'Mechanisms/queue' -benchtime 1x -seeds 8
func BenchmarkMechanisms(b *testing.B) {
	played := map[string]*measured{}
	for _, cell := range mechanismCells(b) {
		played[cell.name] = cell
	}
	for _, cell := range splitTraces(b) {
		played[cell.name] = cell
	}
	for _, c := range traceCells() {
		played[c.name] = &measured{
			name: c.name, with: map[uint64]figures{},
			play: func(tb testing.TB, seed uint64, change ...func(*drive.Replay)) figures {
				return c.reader(tb)(seed, change...)
			},
		}
	}
	for _, name := range ablation.Names() {
		for _, cell := range slices.Sorted(maps.Keys(played)) {
			b.Run(name+"/"+cell, func(b *testing.B) {
				for b.Loop() {
					for what, p := range played[cell].pairs(b, name, uint64(*pairs)).all() {
						if p.n == 0 {
							continue
						}
						times, half := p.interval()
						b.ReportMetric(times, what+"-x")
						b.ReportMetric(half, what+"-±")
					}
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// placedAtOnce holds no turn: mechanisms are measured without admission, which leaves them less to do.
func placedAtOnce(r *drive.Replay) { r.Admission = false }

// mechanismCells are the scenarios, the cells, and the excerpts of traces.
func mechanismCells(t testing.TB) []*measured {
	var out []*measured
	for _, s := range append(scenarios(), cells()...) {
		out = append(out, &measured{
			name: s.name, with: map[uint64]figures{},
			play: func(t testing.TB, seed uint64, change ...func(*drive.Replay)) figures {
				_, turns := s.play(t, ours(t), seed, append(change, placedAtOnce)...)
				return sum(turns, len(s.fleet))
			},
		})
	}
	for _, name := range []string{"mooncake_conversation", "mooncake_synthetic", "coding_agent"} {
		for _, fleet := range []string{"even8", "mixed4"} {
			out = append(out, &measured{
				name: "excerpt_" + name + "_" + fleet, with: map[uint64]figures{},
				play: func(t testing.TB, seed uint64, change ...func(*drive.Replay)) figures {
					r := digestReplay(t, excerpt(t, name), digestFleet(fleet), policy.Default)
					r.Seed = seed
					return replayed(t, &r, append(change, placedAtOnce)...)
				},
			})
		}
	}
	return append(out, splitCells()...)
}

// splitCells are cells of split requests: eight endpoints with roles (time) or without (free).
func splitCells() []*measured {
	preset, _ := rig.PresetNamed("reference")
	fast := rig.DefaultTransfer()
	slow := fast
	slow.Bandwidth = 1.25e9
	small := preset.Engine
	small.CacheTokens = 64 * 1500
	agents := preset.Engine
	agents.CacheTokens = 400_000
	var out []*measured
	for _, c := range []struct {
		name   string
		when   fleet.SplitWhen
		link   rig.Transfer
		engine engine.Config
		change func(g *trace.Generator)
	}{
		{"split_time", fleet.WhenTime, fast, preset.Engine, nil},
		{"split_free", fleet.WhenFree, fast, preset.Engine, nil},
		{"split_time_slow_link", fleet.WhenTime, slow, preset.Engine, nil},
		{"split_free_slow_link", fleet.WhenFree, slow, preset.Engine, nil},
		{"split_time_small_cache", fleet.WhenTime, fast, small, nil},
		{"split_free_small_cache", fleet.WhenFree, fast, small, nil},
		{"split_free_long_answers", fleet.WhenFree, fast, preset.Engine, func(g *trace.Generator) { g.Answer = 1500 }},
		{"split_time_long_answers", fleet.WhenTime, fast, preset.Engine, func(g *trace.Generator) { g.Answer = 1500 }},
		{"split_time_agents", fleet.WhenTime, fast, agents, func(g *trace.Generator) {
			g.Conversations, g.Turns, g.System, g.Prefixes, g.User, g.Answer, g.Think, g.Long = 240, 20, 20_000, 1,
				2500, 400, 3*time.Second, 0
		}},
		{"split_free_documents", fleet.WhenFree, fast, preset.Engine, func(g *trace.Generator) {
			g.Conversations, g.Turns, g.System, g.Answer, g.Long, g.LongTokens = 800, 1, 500, 150, 0.6, 20_000
		}},
	} {
		g := documents(1).traffic
		g.Conversations = 500
		if c.change != nil {
			c.change(&g)
		}
		out = append(out, &measured{
			name: c.name, with: map[uint64]figures{},
			play: func(t testing.TB, seed uint64, change ...func(*drive.Replay)) figures {
				return replayed(t,
					splitReplay(t, g.Trace(seed).Half(2), c.when, 0.7, c.link, c.engine, seed), change...)
			},
		})
	}
	uneven := preset.Engine
	uneven.Jitter = 0.05 // the excerpt is the same for all seeds
	return append(out, &measured{
		name: "split_time_excerpt_mooncake_synthetic", with: map[uint64]figures{},
		play: func(t testing.TB, seed uint64, change ...func(*drive.Replay)) figures {
			return replayed(t,
				splitReplay(t, excerpt(t, "mooncake_synthetic"), fleet.WhenTime, 0.7, fast, uneven, seed), change...)
		},
	})
}

// splitTraces are full traces of split requests; none without them.
func splitTraces(b *testing.B) []*measured {
	if os.Getenv("WARMPATH_TRACES") == "" {
		return nil
	}
	preset, _ := rig.PresetNamed("reference")
	var out []*measured
	for _, name := range []string{"mooncake_conversation", "mooncake_synthetic", "coding_agent"} {
		for _, when := range []fleet.SplitWhen{fleet.WhenTime, fleet.WhenFree} {
			out = append(out, &measured{
				name: fmt.Sprintf("split_%s_%s", when, name), with: map[uint64]figures{},
				play: func(t testing.TB, seed uint64, change ...func(*drive.Replay)) figures {
					talks := splitTraffic(b, name)(seed)
					return replayed(t,
						splitReplay(t, talks, when, 0.7, rig.DefaultTransfer(), preset.Engine, seed), change...)
				},
			})
		}
	}
	return out
}

// prefillers is how many of n equal engines compute prompts for the others in the cells of bench/results: the prompts'
// share of a trace's work with an unlimited cache, at least one on each side.
func prefillers(n int, c engine.Config, d trace.Demand) int {
	prompts, answers := c.Work(d.Uncached(), 0), c.Work(0, d.Output)
	return min(max(int(float64(n)*prompts/max(prompts+answers, 1e-9)+0.5), 1), n-1)
}

// splitReplay is eight endpoints that play a trace, with roles or without.
func splitReplay(
	t testing.TB, talks *trace.Trace, when fleet.SplitWhen, load float64, link rig.Transfer, c engine.Config,
	seed uint64,
) *drive.Replay {
	config := policy.Config{Name: policy.Default}.WithDefaults()
	place, err := policy.New(config)
	if err != nil {
		t.Fatal(err)
	}
	r := drive.Replay{
		Trace: talks, Fleet: rig.Even(8, c), Policy: place, Queue: policy.Queue(config), Content: true,
		Load: load, Seed: seed, Transfer: link, Disaggregation: route.Disaggregation{When: when},
	}
	if when == fleet.WhenTime {
		n := prefillers(8, c, talks.Demand(c.BlockTokens))
		r.Fleet = rig.Split(n, 8-n, c)
	}
	return &r
}

// replayed plays a replay and returns its figures.
func replayed(t testing.TB, r *drive.Replay, change ...func(*drive.Replay)) figures {
	t.Helper()
	for _, change := range change {
		change(r)
	}
	o, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	x := simfigures.Of(r, o, simfigures.Objective{})
	return figures{
		hit: x.HitRate, mean: x.TTFT.Mean, p90: x.TTFT.P90, p99: x.TTFT.P99, itl: x.Gap.P99, last: x.E2E.Mean,
	}
}

// measured is a cell played with and without a mechanism.
type measured struct {
	name string
	play func(t testing.TB, seed uint64, change ...func(*drive.Replay)) figures

	mu   sync.Mutex
	with map[uint64]figures // by seed
}

// compared is what pairs of runs showed: ratios without to with.
type compared struct{ mean, p90, p99, hit, itl, last paired }

func (c *compared) all() map[string]*paired {
	return map[string]*paired{
		"mean": &c.mean, "p90": &c.p90, "p99": &c.p99, "hit": &c.hit, "itl": &c.itl, "last": &c.last,
	}
}

// without switches a mechanism off.
func without(t testing.TB, name string) func(*drive.Replay) {
	t.Helper()
	m, err := ablation.Of(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(policy.Config{LeastTTFT: leastttft.Config{Without: m}}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	return func(r *drive.Replay) { r.Policy, r.Without = p, m }
}

// pairs plays with and without a mechanism from the same seeds, 1 to n.
func (c *measured) pairs(t testing.TB, mechanism string, n uint64) *compared {
	t.Helper()
	var out compared
	c.pairsFrom(t, &out, mechanism, 1, n)
	return &out
}

// pairsFrom adds pairs from n seeds.
func (c *measured) pairsFrom(t testing.TB, out *compared, mechanism string, from, n uint64) {
	t.Helper()
	for seed := from; seed < from+n; seed++ {
		c.mu.Lock()
		with, ok := c.with[seed]
		if !ok {
			with = c.play(t, seed)
			c.with[seed] = with
		}
		c.mu.Unlock()
		off := c.play(t, seed, without(t, mechanism))
		out.mean.add(with.mean, off.mean)
		out.p90.add(with.p90, off.p90)
		out.p99.add(with.p99, off.p99)
		if with.hit > 0 && off.hit > 0 {
			out.hit.add(with.hit, off.hit)
		}
		out.last.add(with.last, off.last)
		if with.itl > 0 {
			out.itl.add(with.itl, off.itl)
		}
	}
}

// traceCell is one of the 54 cells of traces.
type traceCell struct {
	name, trace string
	fleet       rig.Fleet
	load        float64
}

// traceCells are the cells of docs/results.md; none without the full traces.
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

// reader reads the trace and returns a function that plays it.
func (c *traceCell) reader(b testing.TB) func(seed uint64, change ...func(*drive.Replay)) figures {
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
		return replayed(b, &drive.Replay{
			Trace: t, Fleet: c.fleet, Policy: by.make, Queue: policy.Queue(policy.Config{Name: by.name}), Content: true,
			Load: c.load, Seed: seed,
		}, change...)
	}
}

// paired accumulates ratios of two figures of one seed, as logarithms.
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
	return 1.96 + 2.5/float64(freedom) // accurate to a hundredth
}

// TestPaired checks an interval computed by hand: ratios of 1.1 and 1.21.
func TestPaired(t *testing.T) {
	var p paired
	p.add(100, 110)
	p.add(100, 121)
	times, half := p.interval()
	if want := math.Sqrt(1.1 * 1.21); math.Abs(times-want) > 1e-9 || math.Abs(half-want*12.71*math.Log(1.1)/2) > 1e-3 {
		t.Error(fmt.Sprint(times, half))
	}
}
