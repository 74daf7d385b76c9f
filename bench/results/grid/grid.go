package grid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/figures"
)

// Measurement is all runs of some cells under some policies.
type Measurement struct {
	library
	cells []Cell
	runs  []*run // in order of cell, policy and seed

	mu   sync.Mutex
	done int       // of those that were to do
	cost costs     // of what is done
	told time.Time // when progress was last said
}

// Open reads the traces and the runs that are kept.
func Open(c Config, cells []Cell) (*Measurement, error) {
	g := &Measurement{library: newLibrary(&c), cells: cells, cost: costs{}}
	for _, at := range cells {
		t, err := g.get(at.Trace)
		if err != nil {
			return nil, err
		}
		for _, half := range halves(c.Policies) {
			name := half.policy
			ids := name == drive.OracleName || policy.NeedsIDs(policy.Config{Name: name}) ||
				!policy.ReadsContent(policy.Config{Name: name})
			for seed := range c.Seeds {
				r := &run{conditions: conditions{
					Cell: at, TraceHash: t.hash, Half: c.Half, Repeat: c.repeats(t.trace), MaxDelay: c.longest(t.trace),
					Engine: c.Engine, Policy: name, IDs: ids, Queue: half.queue, Seed: uint64(seed + 1),
				}}
				k, err := r.recall(c.Store)
				if err != nil {
					return nil, err
				}
				if k != nil {
					g.cost.add(at, k.Figures.WallS)
					if c.valid(k) {
						r.result = k
					}
				}
				g.runs = append(g.runs, r)
			}
		}
	}
	return g, nil
}

// Run measures the runs that are not kept yet, Jobs at a time, and reports progress on w: in one line that is drawn
// over where w is a live terminal, else in a line now and then.
func (g *Measurement) Run(ctx context.Context, w io.Writer, live bool) error {
	var todo []*run
	for _, r := range g.runs {
		if r.result == nil {
			todo = append(todo, r)
		}
	}
	fmt.Fprintf(w, "%d cells, %d runs, %d of them done before; %s\n",
		len(g.cells), len(g.runs), len(g.runs)-len(todo), g.estimate(todo))
	if len(todo) == 0 {
		return nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	g.told = time.Now()
	next := make(chan *run)
	var group sync.WaitGroup
	for range g.Jobs {
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
		return fmt.Errorf("interrupted after %d of %d runs; they are kept, and the same command goes on from there",
			g.done, len(todo))
	} else {
		return err
	}
}

// half is a policy with the router's queue or without.
type half struct {
	policy string
	queue  bool
}

// halves are each policy with the queue, then each without. The oracle, which sees the engines alone, plays without.
func halves(policies []string) (out []half) {
	for _, queue := range []bool{true, false} {
		for _, name := range policies {
			if !queue || name != drive.OracleName {
				out = append(out, half{name, queue})
			}
		}
	}
	return out
}

// half judges the runs with the queue, or those without. The oracle's are among both.
func (g *Measurement) half(queue bool) []*judged {
	var runs []*run
	for _, r := range g.runs {
		if r.Queue == queue || r.Policy == drive.OracleName {
			runs = append(runs, r)
		}
	}
	return judge(g.cells, runs)
}

// WriteSummary prints a compact table for all with the queue and one for all without, made for tuning a policy.
func (g *Measurement) WriteSummary(w io.Writer) {
	fmt.Fprintln(w, "With the router's queue:")
	printSummary(w, g.half(true))
	fmt.Fprintln(w, "\nWithout:")
	printSummary(w, g.half(false))
}

// WritePage writes the page and its plots.
func (g *Measurement) WritePage() error { return writePage(&g.library, g.half(true), g.half(false)) }

// one does one run and keeps it.
func (g *Measurement) one(ctx context.Context, r *run) error {
	c := policy.Config{Name: r.Policy}.WithDefaults()
	oracle := r.Policy == drive.OracleName
	make, _ := policy.New(c) // it has passed check
	s := simrun.Run{SLO: figures.Objective{TTFT: 5 * time.Second, ITL: 250 * time.Millisecond}, Replay: drive.Replay{
		Trace: g.traces[r.Trace].trace, Fleet: r.fleet(g.Engine), Policy: make, Oracle: oracle,
		Content: !oracle && policy.ReadsContent(c), IDs: r.IDs, Load: r.Load, MaxDelay: r.MaxDelay, Seed: r.Seed,
	}}
	if r.Queue {
		s.Replay.Queue = route.QueueConfig{Ahead: route.DefaultAhead, Patience: route.DefaultPatience}
	}
	if err := s.Do(ctx); err != nil {
		return err
	}
	k := &kept{Conditions: r.conditions, Build: g.Tag, Figures: s.Figures}
	if err := k.keep(g.Store); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r.result = k
	g.done++
	g.cost.add(r.Cell, k.Figures.WallS)
	return nil
}

// tellEvery is how often progress is said where there is no terminal.
const tellEvery = 15 * time.Second

func (g *Measurement) tell(w io.Writer, live bool, todo []*run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var left []*run
	for _, r := range todo {
		if r.result == nil {
			left = append(left, r)
		}
	}
	switch {
	case live:
		terminal.Line(w, fmt.Sprintf("%s  %d of %d, %s", terminal.Bar(float64(g.done)/float64(len(todo))), g.done,
			len(todo), g.estimate(left)))
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

func (c costs) add(at Cell, seconds float64) {
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
func (c Cell) costKeys() []string { return []string{fmt.Sprint(c.Trace, " ", c.Endpoints), c.Trace} }

// secondsATurn is what a turn takes about, until one was measured.
const secondsATurn = 200e-6

// estimate says how long the runs will take, from those that are done.
func (g *Measurement) estimate(runs []*run) string {
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
	left := time.Duration(total / float64(min(g.Jobs, len(runs))) * 1e9)
	return "about " + left.Round(time.Second).String() + " left"
}
