package simrun_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	simrig "github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// runs are replays of one small trace, one for each name.
func runs(t *testing.T, names ...string) []*simrun.Run {
	t.Helper()
	g := simtrace.DefaultGenerator()
	g.Conversations = 20
	trace := g.Trace(1)
	var out []*simrun.Run
	for _, name := range names {
		choose, err := policy.New(policy.Config{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, &simrun.Run{Replay: drive.Replay{
			Trace: trace, Fleet: simrig.Even(2, engine.DefaultConfig()), Policy: choose, IDs: true, Load: 0.5,
			Seed: 1, Routers: 1,
		}})
	}
	return out
}

// TestAll: each run has its own figures, which do not depend on how many run at a time, and a terminal is left as it
// was.
func TestAll(t *testing.T) {
	one, both := runs(t, "round_robin", "session"), runs(t, "round_robin", "session")
	var quiet, drawn bytes.Buffer
	if err := errors.Join(simrun.All(t.Context(), &quiet, false, one, 1),
		simrun.All(t.Context(), &drawn, true, both, 2)); err != nil {
		t.Fatal(err)
	}
	for i, r := range both {
		a, b := one[i].Figures, r.Figures
		if a.Policy != r.Title() || a.TTFT != b.TTFT || a.HitRate != b.HitRate || a.HitRate <= 0 ||
			len(r.Outcome.Turns) != len(r.Replay.Trace.Turns) {
			t.Errorf("%s: %+v, then %+v", r.Title(), a.TTFT, b.TTFT)
		}
	}
	if one[0].Figures.HitRate >= one[1].Figures.HitRate {
		t.Errorf("round_robin finds %v, session %v", one[0].Figures.HitRate, one[1].Figures.HitRate)
	}
	if quiet.Len() > 0 || !strings.HasSuffix(drawn.String(), "\r\x1b[K") {
		t.Errorf("drawn %q and %q", quiet.String(), drawn.String())
	}
	if simrun.MeasureRouters(both); both[0].Outcome.Routers != nil {
		t.Error("routers are still held")
	}
}

// TestAllFails: the first error is the one that is returned, and an interruption says that nothing was written.
func TestAllFails(t *testing.T) {
	broken := runs(t, "round_robin", "session")
	broken[1].Replay.Fleet = simrig.Fleet{}
	if err := simrun.All(t.Context(), &bytes.Buffer{}, false, broken, 1); err == nil ||
		!strings.HasPrefix(err.Error(), "session: ") {
		t.Errorf("%v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := simrun.All(ctx, &bytes.Buffer{}, false, runs(t, "session"), 1); err == nil ||
		err.Error() != "interrupted; nothing was written" {
		t.Errorf("%v", err)
	}
}

func TestUnfit(t *testing.T) {
	r := runs(t, "session")[0]
	small := engine.DefaultConfig()
	small.CacheTokens = small.BlockTokens
	if n := simrun.Unfit(r.Replay.Trace, simrig.Even(1, small)); n != len(r.Replay.Trace.Turns) {
		t.Errorf("%d of %d turns do not fit one block", n, len(r.Replay.Trace.Turns))
	}
	if n := simrun.Unfit(r.Replay.Trace, r.Replay.Fleet); n != 0 {
		t.Errorf("%d turns do not fit", n)
	}
}
