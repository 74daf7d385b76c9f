package main

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
	simfigures "github.com/warmpath/warmpath/sim/figures"
)

// simulation is one policy's replay.
type simulation struct {
	replay  drive.Replay
	slo     simfigures.Objective
	way     string // in which requests are split, "" in fleets without roles
	outcome *drive.Outcome
	figures simfigures.Figures
	done    atomic.Int64 // turns
}

// run replays until ctx ends.
func (s *simulation) run(ctx context.Context) error {
	s.replay.Progress = func(done, _ int) bool {
		s.done.Store(int64(done))
		return ctx.Err() == nil
	}
	began := time.Now()
	outcome, err := s.replay.Run()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w", s.replay.PolicyName, err)
	}
	s.outcome, s.figures = outcome, simfigures.Of(&s.replay, outcome, s.slo)
	s.figures.WallS = float64(time.Since(began).Milliseconds()) / 1000
	s.done.Store(int64(len(outcome.Turns)))
	return nil
}

// simulateAll runs all replays, so many at a time, and shows how far they are.
func simulateAll(ctx context.Context, w io.Writer, live bool, runs []*simulation, jobs int) error {
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
			if err := s.run(ctx); err != nil {
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
func showProgress(w io.Writer, runs []*simulation, done <-chan struct{}) {
	total := int64(0)
	for _, s := range runs {
		total += int64(len(s.replay.Trace.Turns))
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
				if n > 0 && n < int64(len(s.replay.Trace.Turns)) {
					busy = append(busy, s.replay.PolicyName)
				}
			}
			terminal.Line(w, terminal.Bar(float64(turns)/float64(max(total, 1)))+"  "+strings.Join(busy, ", "))
		}
	}
}

// measureRouters finds out how much memory each run's routers hold, by letting go of them one after the other.
func measureRouters(runs []*simulation) {
	before := liveHeap()
	for _, s := range runs {
		s.outcome.Routers, s.replay.Policy = nil, nil
		after := liveHeap()
		if !s.replay.Oracle { // with the oracle goes all that it sees
			s.figures.RouterBytes = max(before-after, 0)
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
