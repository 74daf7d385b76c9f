package panics_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/panics"
)

var begun atomic.Int64

// begin lets each test begin later than those before it ended: the process remembers when a panic was last logged, and
// each bubble's clock begins anew.
func begin() { time.Sleep(time.Duration(begun.Add(1)) * time.Hour) }

// TestCatch: a panic is counted each time and logged now and then, and what returns is neither.
func TestCatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(&said, nil))
		before := panics.Counts()[panics.Probe]
		for range 5 {
			if panics.Catch(log, panics.Probe, func() { panic("boom") }) {
				t.Error("a panic is said to have returned")
			}
		}
		if !panics.Catch(log, panics.Probe, func() {}) {
			t.Error("what returns is said to have panicked")
		}
		time.Sleep(11 * time.Second)
		panics.Catch(log, panics.Probe, func() { panic("later") })
		if n := panics.Counts()[panics.Probe] - before; n != 6 {
			t.Errorf("%d are counted, want 6", n)
		}
		if n := strings.Count(said.String(), "reader=probe"); n != 2 ||
			!strings.Contains(said.String(), "panics_test.go") {
			t.Errorf("said %d times, want twice, with the stack: %s", n, &said)
		}
	})
}

// TestKeep: a loop that panics goes on after the pause, until it returns or its context ends.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		log := slog.New(slog.DiscardHandler)
		began, n := time.Now(), 0
		panics.Keep(t.Context(), log, panics.Probe, time.Second, func() {
			if n++; n < 4 {
				panic(n)
			}
		})
		if n != 4 || time.Since(began) != 3*time.Second {
			t.Errorf("%d times in %v", n, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		n = 0
		panics.Keep(ctx, log, panics.Probe, time.Second, func() { n++; panic("again") })
		if n < 10 || n > 11 {
			t.Errorf("%d times in ten seconds", n)
		}
	})
}

// TestUpkeep: what sees to the process itself is counted under its own name, and nothing else is.
func TestUpkeep(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, who := range []panics.Reader{panics.Collector, panics.Processors, panics.Watchdog} {
		want := panics.Counts()
		want[who]++
		panics.Catch(log, who, func() { panic("boom") })
		if got := panics.Counts(); !maps.Equal(got, want) {
			t.Errorf("%s: %v are counted, want %v", who, got, want)
		}
	}
}
