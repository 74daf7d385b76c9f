package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// mixedTrace is the drawn workload of the part about disaggregation: short chats among which every tenth begins with a long document.
const mixedTrace = "mixed"

// mixedSettings are what it is drawn by.
const mixedSettings = "conversations=1500,turns=4,system=1000,prefixes=20,user=200,answer=400,think=5s,long=0.1,long_tokens=16000"

// splitEndpoints is the size of its fleets, and splitThreshold that of production-stack PR 890's example.
const (
	splitEndpoints = 8
	splitThreshold = 4096
)

// The ways that are compared, in order of the tables.
const (
	wayAggregated = "aggregated"
	wayAlways     = "always"
	wayTokens     = "4096 tokens"
	wayTime       = "time"
	wayFree       = "free"
)

func splitWays() []string { return []string{wayAggregated, wayAlways, wayTokens, wayTime, wayFree} }

// splitLinks are the links that KV cache goes over: that of simrig.DefaultTransfer and, where few prompts have to be moved, 10 Gbit/s. Where
// most of the work is prompts, no way to split could get them through that.
func splitLinks(trace string) []simrig.Transfer {
	fast := simrig.DefaultTransfer()
	if trace != mixedTrace {
		return []simrig.Transfer{fast}
	}
	slow := fast
	slow.Bandwidth = 1.25e9
	return []simrig.Transfer{fast, slow}
}

// splitCell is one place of the grid.
type splitCell struct {
	trace    string
	load     float64
	link     simrig.Transfer
	pre, dec int
}

func (c splitCell) String() string {
	return fmt.Sprintf("%s, %dP%dD, load %g, %s", c.trace, c.pre, c.dec, c.load, linkName(c.link))
}

func linkName(t simrig.Transfer) string { return fmt.Sprintf("%g GB/s", t.Bandwidth/1e9) }

// splitGrid is the part of the results about disaggregation.
type splitGrid struct {
	*grid
	cells []*splitJudged
}

// runSplitResults measures the ways to split, and writes the page.
func runSplitResults(ctx context.Context, w io.Writer, terminal bool, o resultsOptions) error {
	g := splitGrid{grid: newGrid(o, nil)}
	began := time.Now()
	for _, name := range append(resultsTraces(), mixedTrace) {
		for _, load := range resultsLoads()[:2] {
			for _, link := range splitLinks(name) {
				j, err := g.cell(ctx, w, terminal, splitCell{trace: name, load: load, link: link})
				if err != nil {
					return err
				}
				fmt.Fprintf(w, "%s: done after %s\n", j.cell, time.Since(began).Round(time.Second))
				g.cells = append(g.cells, j)
			}
		}
	}
	if o.summary {
		_, err := w.Write(g.tables())
		return err
	}
	return wholefile.Write(o.out, g.page())
}

// trace is one of the traces on disk, or the drawn one, which is another with each seed.
func (g *splitGrid) trace(name string, seed uint64) (*gridTrace, error) {
	if name != mixedTrace {
		if g.traces[name] == nil {
			if err := g.read(name); err != nil {
				return nil, err
			}
		}
		return g.traces[name], nil
	}
	draw, err := simtrace.ParseGenerator(strings.Split(mixedSettings, ","))
	if err != nil {
		return nil, err
	}
	t := draw.Trace(seed)
	if g.o.half > 0 {
		t = t.Half(g.o.half)
	}
	sum := sha256.Sum256([]byte(mixedSettings))
	return &gridTrace{hash: hex.EncodeToString(sum[:12]), trace: t}, nil
}

// cell measures the ways in one place, as far as that was not done before.
func (g *splitGrid) cell(ctx context.Context, w io.Writer, terminal bool, c splitCell) (*splitJudged, error) {
	t, err := g.trace(c.trace, 1)
	if err != nil {
		return nil, err
	}
	c.pre = simrig.Prefillers(splitEndpoints, g.engine, t.trace.Demand(g.engine.BlockTokens))
	c.dec = splitEndpoints - c.pre
	j := &splitJudged{cell: c, ways: make([]*measured, len(splitWays()))}
	var todo []*simrun.Run
	var keep []*kept
	var result []*kept
	for i, way := range splitWays() {
		j.ways[i] = &measured{policy: way}
		for seed := range g.o.seeds {
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
		if err := simrun.All(ctx, w, terminal, todo, g.o.jobs); err != nil {
			return nil, err
		}
	}
	for i, k := range keep {
		k.Figures = todo[i].Figures
		if err := k.keep(g.o.store); err != nil {
			return nil, err
		}
	}
	for i, k := range result {
		m := j.ways[i/g.o.seeds]
		m.figures = append(m.figures, k.Figures)
	}
	return j, nil
}

// one is a run: what is kept of it, or what is to be done for it.
func (g *splitGrid) one(c splitCell, way string, seed uint64) (*kept, *simrun.Run, error) {
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
		cell: cell{Trace: c.trace, Endpoints: splitEndpoints, Fleet: fleetEven, Load: c.load}, TraceHash: t.hash, Half: g.o.half, Repeat: g.repeats(t.trace),
		MaxDelay: g.longest(t.trace), Engine: g.engine, Policy: policy.Default, IDs: !content, Seed: seed,
	}
	s := &simrun.Run{SLO: figures.Objective{TTFT: 5 * time.Second, ITL: 250 * time.Millisecond}, Replay: drive.Replay{
		Trace: t.trace, Fleet: simrig.Even(splitEndpoints, g.engine), Policy: place, PolicyName: policy.Default, Queue: policy.Queue(chosen), Content: content, IDs: on.IDs,
		Load: c.load, MaxDelay: on.MaxDelay, Seed: seed,
	}}
	switch way {
	case wayAggregated:
	case wayFree: // the endpoints of the aggregated fleet
		on.Split, on.Transfer = way, c.link
		s.Way, s.Replay.Transfer, s.Replay.Disaggregation = way, c.link, route.Disaggregation{When: route.WhenFree}
	default:
		on.Fleet, on.Split, on.Transfer = fmt.Sprintf("%dP%dD", c.pre, c.dec), way, c.link
		s.Way, s.Replay.Fleet, s.Replay.Transfer = way, simrig.Split(c.pre, c.dec, g.engine), c.link
		s.Replay.Disaggregation = map[string]route.Disaggregation{
			wayAlways: {When: route.WhenAlways}, wayTokens: {When: route.WhenTokens, Threshold: splitThreshold}, wayTime: {When: route.WhenTime},
		}[way]
	}
	k, err := on.recall(g.o.store)
	if err != nil {
		return nil, nil, err
	}
	if k != nil && g.valid(k) {
		return k, nil, nil
	}
	return &kept{Conditions: on, Build: g.o.tag}, s, nil
}
