// Package simrun runs replays of one trace side by side and keeps what came of them. It owns how many run at a time,
// how far they are, and how long and how much memory each took. It promises that figures depend on a replay alone, but
// for those two. It never chooses what is replayed and never says what figures mean.
package simrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// Run is one policy's replay. Replay, SLO, Label, Options and Way are set beforehand; Outcome and Figures are what came
// of it.
type Run struct {
	Replay  drive.Replay
	SLO     figures.Objective
	Label   string            // tells it from the policy's other runs by values of options, "" for the only one
	Options map[string]string // options that were set, by path below policy
	Way     string            // in which requests are split, "" in fleets without roles
	Outcome *drive.Outcome
	Figures figures.Figures
	done    atomic.Int64 // turns
}

// Title is a run's name among those it is compared with.
func (s *Run) Title() string {
	title := s.Replay.PolicyName()
	if s.Label != "" {
		title += " [" + s.Label + "]"
	}
	if s.Way != "" {
		title += ", " + s.Way
	}
	return title
}

// Do replays until ctx ends.
func (s *Run) Do(ctx context.Context) error {
	s.Replay.Progress = func(done, _ int) bool {
		s.done.Store(int64(done))
		return ctx.Err() == nil
	}
	began := time.Now()
	outcome, err := s.Replay.Run()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w", s.Replay.PolicyName(), err)
	}
	s.Outcome, s.Figures = outcome, figures.Of(&s.Replay, outcome, s.SLO)
	s.Figures.Options = s.Options
	s.Figures.WallS = float64(time.Since(began).Milliseconds()) / 1000
	s.done.Store(int64(len(outcome.Turns)))
	return nil
}

// All does all runs, jobs at a time, and shows progress where w is a live terminal. The first error ends the others.
func All(ctx context.Context, w io.Writer, live bool, runs []*Run, jobs int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var group sync.WaitGroup
	free := make(chan struct{}, jobs)
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if live {
			showProgress(w, runs, done)
		}
	}()
	for _, s := range runs {
		group.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			if err := s.Do(ctx); err != nil {
				stop(err) // the first error is the cause of the others' end
			}
		})
	}
	group.Wait()
	close(done)
	<-stopped
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		return errors.New("interrupted; nothing was written")
	} else {
		return err
	}
}

// showProgress draws a bar until done.
func showProgress(w io.Writer, runs []*Run, done <-chan struct{}) {
	total := int64(0)
	for _, s := range runs {
		total += int64(len(s.Replay.Trace.Turns))
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			terminal.ClearLine(w)
			return
		case <-tick.C:
			turns, busy := int64(0), []string(nil)
			for _, s := range runs {
				n := s.done.Load()
				turns += n
				if n > 0 && n < int64(len(s.Replay.Trace.Turns)) {
					busy = append(busy, s.Replay.PolicyName())
				}
			}
			terminal.Line(w, terminal.Bar(float64(turns)/float64(max(total, 1)))+"  "+strings.Join(busy, ", "))
		}
	}
}

// MeasureRouters measures the memory that each run's routers hold, by dropping them one after the other.
func MeasureRouters(runs []*Run) {
	before := liveHeap()
	for _, s := range runs {
		s.Outcome.Routers = nil
		after := liveHeap()
		if !s.Replay.Oracle { // with the oracle goes all that it sees
			s.Figures.RouterBytes = max(before-after, 0)
		}
		before = after
	}
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Unfit is how many requests of a trace fit no engine's KV cache, prompt and answer together.
func Unfit(t *trace.Trace, f simrig.Fleet) int {
	most, n := 0, 0
	for _, e := range f.Endpoints {
		most = max(most, e.Engine.Blocks()*e.Engine.BlockTokens)
	}
	for i := range t.Turns {
		if t.Turns[i].Prompt+t.Turns[i].Output > most {
			n++
		}
	}
	return n
}
