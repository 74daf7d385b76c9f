package grid

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// splits is the runs about disaggregation.
type splits struct {
	library
	cells []*splitJudged
}

// Disaggregation measures the ways to split the requests of the default policy, and writes the page about them; with
// summary, only its tables to w. Where w is a live terminal it says how far it is.
func Disaggregation(ctx context.Context, w io.Writer, live bool, c Config, summary bool) error {
	g := splits{library: newLibrary(&c)}
	began := time.Now()
	for _, name := range append(Traces(), mixedTrace) {
		for _, load := range loads()[:2] {
			for _, link := range splitLinks(name) {
				j, err := g.cell(ctx, w, live, splitCell{trace: name, load: load, link: link})
				if err != nil {
					return err
				}
				fmt.Fprintf(w, "%s: done after %s\n", j.cell, time.Since(began).Round(time.Second))
				g.cells = append(g.cells, j)
			}
		}
	}
	if summary {
		_, err := w.Write(splitTables(g.cells))
		return err
	}
	return wholefile.Write(c.Out, splitPage(&c, g.cells))
}

// trace is one of the traces on disk, or the drawn one, which is another with each seed.
func (g *splits) trace(name string, seed uint64) (*played, error) {
	if name != mixedTrace {
		return g.get(name)
	}
	draw, err := simtrace.ParseGenerator(strings.Split(mixedSettings, ","))
	if err != nil {
		return nil, err
	}
	t := draw.Trace(seed)
	if g.Half > 0 {
		t = t.Half(g.Half)
	}
	sum := sha256.Sum256([]byte(mixedSettings))
	return &played{hash: hex.EncodeToString(sum[:12]), trace: t}, nil
}

// cell measures the ways in one place, as far as that was not done before.
func (g *splits) cell(ctx context.Context, w io.Writer, live bool, c splitCell) (*splitJudged, error) {
	t, err := g.trace(c.trace, 1)
	if err != nil {
		return nil, err
	}
	c.pre = prefillers(splitEndpoints, g.Engine, t.trace.Demand(g.Engine.BlockTokens))
	c.dec = splitEndpoints - c.pre
	j := &splitJudged{cell: c, ways: make([]*measured, len(splitWays()))}
	var todo []*simrun.Run
	var keep []*kept
	var result []*kept
	for i, way := range splitWays() {
		j.ways[i] = &measured{policy: way}
		for seed := range g.Seeds {
			r, s, err := g.one(c, way, uint64(seed+1))
			if err != nil {
				return nil, err
			}
			if result = append(result, r); s != nil {
				todo, keep = append(todo, s), append(keep, r)
			}
		}
	}
	if len(todo) > 0 {
		if err := simrun.All(ctx, w, live, todo, g.Jobs); err != nil {
			return nil, err
		}
	}
	for i, k := range keep {
		k.Figures = todo[i].Figures
		if err := k.keep(g.Store); err != nil {
			return nil, err
		}
	}
	for i, k := range result {
		m := j.ways[i/g.Seeds]
		m.figures = append(m.figures, k.Figures)
	}
	return j, nil
}

// prefillers is how many of n equal engines should compute prompts for the others: the prompts' share of a trace's work
// with an unlimited cache, at least one on each side.
func prefillers(n int, c engine.Config, d simtrace.Demand) int {
	prompts, answers := c.Work(d.Uncached(), 0), c.Work(0, d.Output)
	share := 0.0
	if all := prompts + answers; all > 0 {
		share = prompts / all
	}
	return min(max(int(float64(float64(n)*share)+0.5), 1), n-1)
}

// one is a run: what is kept of it, or what is to be done for it.
func (g *splits) one(c splitCell, way string, seed uint64) (*kept, *simrun.Run, error) {
	t, err := g.trace(c.trace, seed)
	if err != nil {
		return nil, nil, err
	}
	chosen := policy.Config{Name: policy.Default}.WithDefaults()
	place, err := policy.New(chosen)
	if err != nil {
		return nil, nil, err
	}
	content := policy.ReadsContent(chosen)
	on := conditions{
		Cell: Cell{Trace: c.trace, Endpoints: splitEndpoints, Fleet: fleetEven, Load: c.load}, TraceHash: t.hash,
		Half: g.Half, Repeat: g.repeats(t.trace),
		MaxDelay: g.longest(t.trace), Engine: g.Engine, Policy: policy.Default, IDs: !content, Queue: true, Seed: seed,
	}
	s := &simrun.Run{SLO: figures.Objective{TTFT: 5 * time.Second, ITL: 250 * time.Millisecond}, Replay: drive.Replay{
		Trace: t.trace, Fleet: simrig.Even(splitEndpoints, g.Engine), Policy: place, Queue: policy.Queue(chosen),
		Content: content, IDs: on.IDs, Load: c.load, MaxDelay: on.MaxDelay, Seed: seed,
	}}
	switch way {
	case wayAggregated:
	case wayFree: // the endpoints of the aggregated fleet
		on.Split, on.Transfer = way, c.link
		s.Way, s.Replay.Transfer, s.Replay.Disaggregation = way, c.link, route.Disaggregation{When: fleet.WhenFree}
	default:
		on.Fleet, on.Split, on.Transfer = fmt.Sprintf("%dP%dD", c.pre, c.dec), way, c.link
		s.Way, s.Replay.Fleet, s.Replay.Transfer = way, simrig.Split(c.pre, c.dec, g.Engine), c.link
		s.Replay.Disaggregation = map[string]route.Disaggregation{
			wayAlways: {When: fleet.WhenAlways}, wayTokens: {When: fleet.WhenTokens, Threshold: splitThreshold},
			wayTime: {When: fleet.WhenTime},
		}[way]
	}
	k, err := on.recall(g.Store)
	if err != nil {
		return nil, nil, err
	}
	if k != nil && g.valid(k) {
		return k, nil, nil
	}
	return &kept{Conditions: on, Build: g.Tag}, s, nil
}
