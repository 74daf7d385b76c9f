package sim_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim"
)

// TestRoutersThatHearAtOnceAreOne: a policy that goes by the router's books and beliefs alone places every turn the same under four
// routers that hear of each other at once as under one.
func TestRoutersThatHearAtOnceAreOne(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "traces", "mooncake_conversation.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := sim.ReadTrace("t", f, sim.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	c := sim.DefaultConfig()
	c.BlockTokens, c.CacheTokens = 64, 640_000
	for _, name := range []string{"lmetric", "dynamo.kv"} {
		run := func(routers int) []sim.Played {
			p, err := policy.New(policy.Config{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			r := sim.Replay{Trace: trace, Fleet: sim.MixedFleet(4, c), Policy: p, PolicyName: name, Content: true, Load: 0.8, Seed: 3, Routers: routers, Share: true}
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
					t.Errorf("%s: turn %d of %d: %+v under one router, %+v under four", name, i, len(one), one[i], four[i])
					break
				}
			}
		}
	}
}
