package sim_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// TestHostCacheIsLearnt: engines report the capacity of the KV cache, not of host memory. The router infers it from
// unexpected hits, so its predictions become accurate and conversations stay.
func TestHostCacheIsLearnt(t *testing.T) {
	c := engine.DefaultConfig()
	c.BlockTokens, c.CacheTokens, c.HostCacheTokens, c.HostTokensPerSecond = 16, 60_000, 600_000, 150_000
	g := simtrace.DefaultGenerator()
	g.Conversations, g.System, g.Think = 600, 500, 20*time.Second
	trace := g.Trace(4)
	by := policy.Config{Name: "least_ttft"}
	p, err := policy.New(by)
	if err != nil {
		t.Fatal(err)
	}
	o, err := (&drive.Replay{
		Trace: trace, Fleet: rig.Even(4, c), Policy: p, Queue: policy.Queue(by), Content: true, Load: 0.6, Seed: 1,
	}).Run()
	if err != nil {
		t.Fatal(err)
	}
	var prompt, cached, off, home, later int
	for _, turn := range o.Turns[len(o.Turns)/2:] {
		prompt, cached = prompt+trace.Turns[turn.Turn].Prompt, cached+turn.Cached
		off += max(turn.Cached-turn.Predicted, turn.Predicted-turn.Cached)
		if !turn.First {
			later++
		}
		if turn.Home {
			home++
		}
	}
	if 20*off > prompt || 10*home < 9*later {
		t.Errorf("%d of %d tokens were cached, and %d were mistaken; %d of %d turns at home",
			cached, prompt, off, home, later)
	}
}
