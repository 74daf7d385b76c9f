package sim_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// TestRoutersThatHearAtOnceAreOne: a policy that only uses the router's accounts and beliefs places every turn alike
// under one router and under four with instant news.
func TestRoutersThatHearAtOnceAreOne(t *testing.T) {
	f, err := os.Open(filepath.Join("trace", "testdata", "traces", "mooncake_conversation.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := simtrace.Read("t", f, simtrace.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	c := engine.DefaultConfig()
	c.BlockTokens, c.CacheTokens = 64, 640_000
	for _, name := range []string{"lmetric", "dynamo.kv"} {
		run := func(routers int) []drive.Played {
			p, err := policy.New(policy.Config{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			r := drive.Replay{
				Trace: trace, Fleet: rig.Mixed(4, c), Policy: p, Content: true, Load: 0.8, Seed: 3,
				Routers: routers, Share: true,
			}
			o, err := r.Run()
			if err != nil {
				t.Fatal(err)
			}
			return o.Turns
		}
		one, four := run(1), run(4)
		if !slices.Equal(one, four) {
			for i := range one {
				if one[i] != four[i] {
					t.Errorf("%s: turn %d of %d: %+v under one router, %+v under four",
						name, i, len(one), one[i], four[i])
					break
				}
			}
		}
	}
}

// TestRoutersWithQueuesGoOn: a request queued at one of several routers is sent although its engine's work belongs to
// others, with and without news.
func TestRoutersWithQueuesGoOn(t *testing.T) {
	g := simtrace.DefaultGenerator()
	g.Conversations = 200
	fleet := rig.Mixed(3, engine.DefaultConfig())
	fleet.Endpoints[1].Outages = []rig.Outage{{At: 20 * time.Second, For: 10 * time.Second}}
	for _, share := range []bool{false, true} {
		for _, staleness := range []time.Duration{0, 50 * time.Millisecond, 5 * time.Second} {
			by := policy.Config{Name: "least_ttft"}
			p, err := policy.New(by)
			if err != nil {
				t.Fatal(err)
			}
			r := drive.Replay{
				Trace: g.Trace(2), Fleet: fleet, Policy: p, Queue: policy.Queue(by), Content: true, Load: 1.1,
				Routers: 3, Share: share, Staleness: staleness,
			}
			o, err := r.Run()
			if err != nil {
				t.Fatalf("share %t, %v: %v", share, staleness, err)
			}
			for _, turn := range o.Turns {
				if !turn.Failed && turn.TTFT <= 0 {
					t.Fatalf("share %t, %v: turn %d has no first token: %+v", share, staleness, turn.Turn, turn)
				}
			}
			for _, router := range o.Routers {
				if s := router.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
					t.Errorf("share %t, %v: at the end: %+v", share, staleness, s)
				}
			}
		}
	}
}
