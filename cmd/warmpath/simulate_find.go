package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/warmpath/warmpath/internal/simreport"
	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// mostFound bounds the endpoints that --find-endpoints tries.
const mostFound = 1024

// helps reports whether twice the endpoints made more turns good, by half a point, or their p90 of the TTFT shorter, by
// a twentieth. Where they do not, hardly a turn waits for another, and still more endpoints change nothing.
func helps(half, all *figures.Figures) bool {
	return all.Goodput > half.Goodput+0.005 || all.TTFT.P90 < 0.95*half.TTFT.P90
}

// checkFind reports faults of the flags of --find-endpoints.
func (o *simulateOptions) checkFind(changed func(flag string) bool) error {
	if !o.find {
		if changed("slo-share") {
			return errors.New("--slo-share is the goal of --find-endpoints; give that too")
		}
		return nil
	}
	var errs []error
	for _, flag := range []string{"endpoints", "prefill", "decode"} {
		if changed(flag) {
			errs = append(errs,
				fmt.Errorf("--%s says how many there are, which --find-endpoints is to find; give one of them", flag))
		}
	}
	if changed("load") {
		errs = append(errs, errors.New("--load grows with the fleet, so that no number is ever enough; "+
			"with --find-endpoints give --speed, or --clients for sessions"))
	}
	if !(o.share > 0 && o.share <= 1) {
		errs = append(errs, fmt.Errorf("--slo-share must be above 0 and at most 1, got %v", o.share))
	}
	if o.slo.TTFT == 0 && o.slo.ITL == 0 {
		errs = append(errs, errors.New("--find-endpoints needs a goal: --slo-ttft, --slo-itl or both"))
	}
	return errors.Join(errs...)
}

// resized is a fleet of n endpoints: those of f, over and over.
func resized(f simrig.Fleet, n int) simrig.Fleet {
	own := f.Endpoints
	f.Endpoints = make([]simrig.Endpoint, n)
	for i := range f.Endpoints {
		e := own[i%len(own)]
		if n > len(own) {
			e.Name = fmt.Sprintf("%s-%d", e.Name, i/len(own)+1)
		}
		f.Endpoints[i] = e
	}
	return f
}

// withAll is how many of a fleet's endpoints, from the first, have every engine that is in it. Of fewer than those,
// twice as many may be no better because the others are slower.
func withAll(f simrig.Fleet) (n int) {
	seen := map[engine.Config]bool{}
	for i := range f.Endpoints {
		if c := f.Endpoints[i].Engine; !seen[c] {
			seen[c], n = true, i+1
		}
	}
	return n
}

// sought is what a search knows of one kind of run.
type sought struct {
	simrun.Search
	found *simrun.Run      // with the fewest endpoints that keep the goal; nil for none yet
	short *figures.Figures // of the largest fleet that was not enough; nil for none yet
}

// tried takes a replay that keeps the goal, or does not. Once twice as many endpoints are no better the search ends,
// where at least whole of them have every engine that there is.
func (s *sought) tried(run *simrun.Run, kept bool, whole int) {
	f := &run.Figures
	s.Tried(f.Endpoints, kept)
	if kept {
		s.found = run
		return
	}
	if s.short != nil && s.short.Endpoints >= whole && !helps(s.short, f) {
		s.GiveUp()
	}
	s.short = f
}

// search replays the trace on fleets of several sizes until it knows, for each run, the fewest endpoints that keep the
// goal, and returns the replays with those.
func (o *simulateOptions) search(
	ctx context.Context, e env, w io.Writer, trace *simtrace.Trace, base simrig.Fleet,
) ([]*simrun.Run, error) {
	if trace.Closed && !trace.Timed && o.clients == 0 {
		return nil, usageError(fmt.Errorf("--find-endpoints: sessions of %s have no common clock; "+
			"say how many are under way at a time with --clients", trace.Name))
	}
	start, err := o.leastLoad(trace, base)
	if err != nil {
		return nil, usageError(err)
	}
	kinds, whole := o.runs(trace, base), withAll(base)
	searches := make([]sought, len(kinds))
	for i := range searches {
		searches[i].Search = simrun.Search{Start: start, Most: mostFound}
	}
	for {
		var round []*simrun.Run
		var of []int // the kind of each run of the round
		for i := range kinds {
			if n := searches[i].Next(); n > 0 {
				round = append(round, o.runs(trace, resized(base, n))[i])
				of = append(of, i)
			}
		}
		if len(round) == 0 {
			break
		}
		if err := simrun.All(ctx, w, e.terminal && o.json != "-", round, o.jobs); err != nil {
			return nil, err
		}
		for at, run := range round {
			f := &run.Figures
			kept := f.Goodput >= o.share
			fmt.Fprintf(w, "%s, %d endpoints: %.1f %% good, TTFT p90 %.0f ms, hit rate %.1f %%\n",
				run.Title(), f.Endpoints, 100*f.Goodput, f.TTFT.P90, 100*f.HitRate)
			searches[of[at]].tried(run, kept, whole)
			run.Outcome.Routers = nil // as large as all else
		}
	}
	found := make([]*simrun.Run, len(kinds))
	for i := range searches {
		found[i] = searches[i].found
	}
	fmt.Fprintln(w)
	simreport.Fewest(w, kinds, found, o.share, mostFound)
	out := slices.DeleteFunc(found, func(r *simrun.Run) bool { return r == nil })
	if len(out) == 0 {
		return nil, errors.New("no policy keeps the goal with any number of endpoints; nothing was written")
	}
	return out, nil
}

// leastLoad is the number of endpoints to begin with: half of those that could do the work with an unlimited cache.
func (o *simulateOptions) leastLoad(trace *simtrace.Trace, base simrig.Fleet) (int, error) {
	for n := 1; ; n = min(2*n, mostFound) {
		plan, err := resized(base, n).Plan(trace, o.load, o.speed, o.seed)
		if err != nil {
			return 0, err
		}
		if plan.Load <= 2 || n == mostFound {
			return n, nil
		}
	}
}
