package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
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
		t.Skip("it runs in one goroutine: the race detector finds nothing here")
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
	// each takes the place of one of a lower priority, and not of its own
	mixed := play(50, true, func(r *drive.Replay) {
		r.Asked = func(i int, q *fleet.Request) {
			if r.Trace.Turns[i].Session%5 == 0 {
				q.QueueClass.Priority = fleet.PriorityLow
			}
		}
	})
	if mixed.OutputPerS < 2*without.OutputPerS || mixed.HitRate < 0.85 {
		t.Errorf("a fifth of low priority: %v tokens/s, %v found; without admission %v, %v",
			mixed.OutputPerS, mixed.HitRate, without.OutputPerS, without.HitRate)
	}
}

// TestAdmissionHurtsNobody: where turns are held, or would be by a rule that takes every session for one that comes
// back, none waits longer for it: chats with answers in one piece, the tenants beside one that floods the fleet, and
// turns of a higher priority. 5 % is what a few other placements make. With -long all scenarios and cells, and with the
// full traces in the directory of the environment variable WARMPATH_TRACES the 54 cells of docs/results.md and four
// with small caches.
func TestAdmissionHurtsNobody(t *testing.T) {
	if racing {
		t.Skip("it runs in one goroutine: the race detector finds nothing here")
	}
	one := func(s scenario, seed uint64) []trace.Conversation {
		talks := s.conversations(seed)
		for i := range talks {
			talks[i].Tenant = ""
		}
		return talks
	}
	chat := scenarios()[slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == "chat" })]
	chat.whole = 1
	flood, together := flooded(8, 10), flooded(8, 10)
	together.talks = func(_ trace.Generator, seed uint64) []trace.Conversation { return one(flood, seed) }
	high := func(x turnout) bool { return x.Conversation%5 == 0 }
	for _, c := range []struct {
		name   string
		s      scenario
		change func(*drive.Replay)
		whose  func(seed uint64, turns []turnout) []turnout
	}{
		{"chats in one piece", chat, nil, nil},
		{"beside a flood", flood, nil, flood.others},
		{"beside a flood, limited", flood, func(r *drive.Replay) { r.Standing.MaxRunning = 16 }, flood.others},
		{"of high priority", together, func(r *drive.Replay) {
			r.Asked = func(i int, q *fleet.Request) {
				if r.Trace.Turns[i].Session%5 == 0 {
					q.QueueClass.Priority = fleet.PriorityHigh
				}
			}
		}, func(_ uint64, turns []turnout) []turnout {
			return slices.DeleteFunc(turns, func(x turnout) bool { return !high(x) })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var f [2]figures
			for i, admits := range []bool{false, true} {
				var all []turnout
				for seed := uint64(1); seed <= 12; seed++ { // fewer say little of the p99
					_, turns := c.s.play(t, ours(t), seed, func(r *drive.Replay) {
						if r.Admission = admits; c.change != nil {
							c.change(r)
						}
					})
					if c.whose != nil {
						turns = c.whose(seed, turns)
					}
					all = append(all, turns...)
				}
				f[i] = sum(all, len(c.s.fleet))
			}
			t.Logf("mean %.0f, p90 %.0f, p99 %.0f ms with admission; without it %.0f, %.0f, %.0f",
				f[1].mean, f[1].p90, f[1].p99, f[0].mean, f[0].p90, f[0].p99)
			if f[1].mean > 1.05*f[0].mean || f[1].p90 > 1.05*f[0].p90 || f[1].p99 > 1.1*f[0].p99 {
				t.Error("it waits longer with admission")
			}
		})
	}
	if !*allSeeds {
		return
	}
	compare := func(name string, play func(seed uint64, change ...func(*drive.Replay)) figures) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f [2]figures
			for _, seed := range seeds {
				for i, admits := range []bool{false, true} {
					x := play(seed, func(r *drive.Replay) { r.Admission = admits })
					f[i].mean, f[i].p90 = f[i].mean+x.mean, f[i].p90+x.p90
				}
			}
			mean, p90 := f[1].mean/f[0].mean, f[1].p90/f[0].p90
			if t.Logf("mean %.3f, p90 %.3f times as long with admission", mean, p90); max(mean, p90) > 1.02 {
				t.Error("it waits longer with admission")
			}
		})
	}
	for _, s := range append(scenarios(), cells()...) {
		compare(s.name, func(seed uint64, change ...func(*drive.Replay)) figures {
			_, turns := s.play(t, ours(t), seed, change...)
			return sum(turns, len(s.fleet))
		})
	}
	list := traceCells()
	if len(list) > 0 {
		reference, _ := rig.PresetNamed("reference")
		small := reference.Engine
		small.CacheTokens = 600_000
		for _, name := range []string{"mooncake_conversation", "mooncake_synthetic"} {
			for _, load := range []float64{0.4, 0.7} {
				list = append(list, traceCell{fmt.Sprintf("%s/small4/%g", name, load), name, rig.Even(4, small), load})
			}
		}
	}
	for _, c := range list {
		compare(c.name, c.reader(t))
	}
}
