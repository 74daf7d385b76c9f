package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/fleetfile"
	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
	simengine "github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/figures"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// grid is all runs of the command.
type grid struct {
	o      resultsOptions
	cells  []cell
	engine simengine.Config
	traces map[string]*gridTrace // by name
	runs   []*gridRun            // in order of cell, policy and seed

	mu   sync.Mutex
	done int       // of those that were to do
	cost costs     // of what is done
	told time.Time // when progress was last said
}

// gridTrace is a trace as all its cells play it.
type gridTrace struct {
	hash  string
	trace *simtrace.Trace
}

// gridRun is one run.
type gridRun struct {
	conditions
	result *kept // nil until it is there
}

func newGrid(o resultsOptions, cells []cell) *grid {
	g := &grid{o: o, cells: cells, traces: map[string]*gridTrace{}, cost: costs{}}
	g.engine, _ = fleetfile.Kind(o.engine) // it has passed check
	return g
}

// load reads the traces and what is kept.
func (g *grid) load() error {
	for _, c := range g.cells {
		if g.traces[c.Trace] == nil {
			if err := g.read(c.Trace); err != nil {
				return err
			}
		}
		t := g.traces[c.Trace]
		for _, name := range g.o.names() {
			ids := name == drive.OracleName || !policy.ReadsContent(policy.Config{Name: name})
			for seed := range g.o.seeds {
				r := &gridRun{conditions: conditions{
					cell: c, TraceHash: t.hash, Half: g.o.half, Repeat: g.repeats(t.trace), MaxDelay: g.longest(t.trace), Engine: g.engine, Policy: name, IDs: ids,
					Seed: uint64(seed + 1),
				}}
				k, err := r.recall(g.o.store)
				if err != nil {
					return err
				}
				if k != nil {
					g.cost.add(c, k.Figures.WallS)
					if g.valid(k) {
						r.result = k
					}
				}
				g.runs = append(g.runs, r)
			}
		}
	}
	return nil
}

// valid says whether kept figures are as good as new ones.
func (g *grid) valid(k *kept) bool {
	name := k.Conditions.Policy
	switch {
	case k.Build == g.o.tag, slices.Contains(g.o.trust, name), slices.Contains(g.o.trust, trustAll):
		return true
	default:
		return slices.Contains(g.o.trust, trustOthers) && name != policy.Default
	}
}

func (g *grid) repeats(t *simtrace.Trace) int {
	if t.Closed {
		return g.o.repeat
	}
	return 1
}

// longest is the longest delay between turns that matters to a trace.
func (g *grid) longest(t *simtrace.Trace) time.Duration {
	if t.Closed {
		return g.o.maxDelay
	}
	return 0
}

func (g *grid) read(name string) error {
	path := filepath.Join(g.o.traces, name+".jsonl")
	hash, err := fileHash(path)
	if err != nil {
		return fmt.Errorf("--traces: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := simtrace.Read(path, f, simtrace.FormatAuto)
	if err != nil {
		return err
	}
	if g.o.half > 0 {
		t = t.Half(g.o.half)
	}
	g.traces[name] = &gridTrace{hash: hash, trace: t.Repeat(g.repeats(t))}
	return nil
}

// run does what is to be done, so many runs at a time, and says how far it is.
func (g *grid) run(ctx context.Context, w io.Writer, live bool) error {
	var todo []*gridRun
	for _, r := range g.runs {
		if r.result == nil {
			todo = append(todo, r)
		}
	}
	fmt.Fprintf(w, "%d cells, %d runs, %d of them done before; %s\n", len(g.cells), len(g.runs), len(g.runs)-len(todo), g.estimate(todo))
	if len(todo) == 0 {
		return nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	g.told = time.Now()
	next := make(chan *gridRun)
	var group sync.WaitGroup
	for range g.o.jobs {
		group.Go(func() {
			for r := range next {
				if err := g.one(ctx, r); err != nil {
					stop(err)
					return
				}
				g.tell(w, live, todo)
			}
		})
	}
feed:
	for _, r := range todo {
		select {
		case next <- r:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	if live {
		terminal.ClearLine(w)
	}
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted after %d of %d runs; they are kept, and the same command goes on from there", g.done, len(todo))
	} else {
		return err
	}
}

// one does one run and keeps it.
func (g *grid) one(ctx context.Context, r *gridRun) error {
	c := policy.Config{Name: r.Policy}.WithDefaults()
	oracle := r.Policy == drive.OracleName
	make, _ := policy.New(c) // it has passed check
	s := simrun.Run{SLO: figures.Objective{TTFT: 5 * time.Second, ITL: 250 * time.Millisecond}, Replay: drive.Replay{
		Trace: g.traces[r.Trace].trace, Fleet: r.fleet(g.engine), Policy: make, PolicyName: r.Policy, Oracle: oracle,
		Queue: policy.Queue(c), Content: !oracle && policy.ReadsContent(c), IDs: r.IDs, Load: r.Load, MaxDelay: r.MaxDelay, Seed: r.Seed,
	}}
	if err := s.Do(ctx); err != nil {
		return err
	}
	k := &kept{Conditions: r.conditions, Build: g.o.tag, Figures: s.Figures}
	if err := k.keep(g.o.store); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r.result = k
	g.done++
	g.cost.add(r.cell, k.Figures.WallS)
	return nil
}

// tellEvery is how often progress is said where there is no terminal.
const tellEvery = 15 * time.Second

func (g *grid) tell(w io.Writer, live bool, todo []*gridRun) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var left []*gridRun
	for _, r := range todo {
		if r.result == nil {
			left = append(left, r)
		}
	}
	switch {
	case live:
		terminal.Line(w, fmt.Sprintf("%s  %d of %d, %s", terminal.Bar(float64(g.done)/float64(len(todo))), g.done, len(todo), g.estimate(left)))
	case time.Since(g.told) >= tellEvery || len(left) == 0:
		g.told = time.Now()
		fmt.Fprintf(w, "%d of %d runs, %s\n", g.done, len(todo), g.estimate(left))
	}
}

// costs is what runs took, by trace and size of the fleet, and by trace.
type costs map[string]*struct {
	seconds float64
	runs    int
}

func (c costs) add(at cell, seconds float64) {
	for _, key := range at.costKeys() {
		if c[key] == nil {
			c[key] = &struct {
				seconds float64
				runs    int
			}{}
		}
		c[key].seconds += seconds
		c[key].runs++
	}
}

// costKeys name the runs that take about as long, the most alike first.
func (c cell) costKeys() []string { return []string{fmt.Sprint(c.Trace, " ", c.Endpoints), c.Trace} }

// secondsATurn is what a turn takes about, until one was measured.
const secondsATurn = 200e-6

// estimate says how long the runs will take, from those that are done.
func (g *grid) estimate(runs []*gridRun) string {
	if len(runs) == 0 {
		return "nothing to do"
	}
	total := 0.0
	for _, r := range runs {
		seconds := secondsATurn * float64(len(g.traces[r.Trace].trace.Turns))
		for _, key := range r.costKeys() {
			if c := g.cost[key]; c != nil {
				seconds = c.seconds / float64(c.runs)
				break
			}
		}
		total += seconds
	}
	left := time.Duration(total / float64(min(g.o.jobs, len(runs))) * 1e9)
	return "about " + left.Round(time.Second).String() + " left"
}
