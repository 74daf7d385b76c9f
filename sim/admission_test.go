package sim_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	sums "github.com/warmpath/warmpath/sim/figures"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// TestAdmission: in closed loop with a fixed horizon, agents that fit see no difference; agents that need more than the
// caches hold answer at least half as much again and find what they computed, and no hold is lost, with several routers
// too, and where clients leave.
func TestAdmission(t *testing.T) {
	if racing {
		t.Skip("nothing of it is concurrent")
	}
	choose, err := policy.New(policy.Config{Name: "least_ttft"}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	g := trace.DefaultGenerator()
	g.Conversations, g.PerSecond, g.System, g.Turns, g.MaxTurns = 300, 0, 2000, 30, 60
	g.User, g.First, g.Answer, g.Think, g.Kept = 300, 30, 60, 2*time.Second, true
	play := func(clients int, admission bool, with func(*drive.Replay)) sums.Figures {
		r := drive.Replay{
			Trace: g.Trace(1), Policy: choose, Content: true, Seed: 1, Load: 0.7, Clients: clients,
			Horizon: 10 * time.Minute, Admission: admission,
			Fleet: rig.Even(2, engine.Config{
				PrefillTokensPerSecond: 5000, ChunkTokens: 2048, CacheTokens: 256_000, BlockTokens: 64, Slots: 32,
				StepBase: 5 * time.Millisecond,
			}),
		}
		if with != nil {
			with(&r)
		}
		o, err := r.Run()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range o.Routers {
			if n := x.Stats().DoubleFinished; n > 0 {
				t.Errorf("%d were finished twice", n)
			}
		}
		return sums.Of(&r, o, sums.Objective{})
	}
	if with, without := play(10, true, nil), play(10, false, nil); with.OutputPerS != without.OutputPerS ||
		with.TTFT != without.TTFT {
		t.Errorf("where all fits: %v tokens/s, TTFT %+v; without it %v, %+v", with.OutputPerS, with.TTFT,
			without.OutputPerS, without.TTFT)
	}
	without := play(50, false, nil)
	for name, change := range map[string]func(*drive.Replay){
		"one router":     nil,
		"three routers":  func(r *drive.Replay) { r.Routers, r.Share, r.Staleness = 3, true, 50*time.Millisecond },
		"clients leave":  func(r *drive.Replay) { r.Leaves = 0.1 },
		"ids of clients": func(r *drive.Replay) { r.IDs = true },
	} {
		with := play(50, true, change)
		if with.OutputPerS < 1.5*without.OutputPerS || with.HitRate < 0.8 || with.Ended <= without.Ended {
			t.Errorf("%s: %v tokens/s, %v found, %d ended; without it %v, %v, %d", name,
				with.OutputPerS, with.HitRate, with.Ended, without.OutputPerS, without.HitRate, without.Ended)
		}
	}
}
