package drive_test

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// TestMisses: a run says of each turn why it was not in the cache, as a router that serves does, and decides as one
// that says nothing.
func TestMisses(t *testing.T) {
	run := func() drive.Replay {
		g := trace.DefaultGenerator()
		g.Conversations, g.Prefixes, g.System = 60, 60, 600
		made := g.Trace(1)
		return drive.Replay{
			Trace: made, Fleet: rig.Even(2, engine.DefaultConfig()), Load: 0.5, Seed: 2, IDs: true, Content: true,
			Policy: func() pick.Policy { return &inTurn{} },
		}
	}
	plain, said := run(), run()
	said.Explain = true
	a, err := plain.Run()
	if err != nil {
		t.Fatal(err)
	}
	b, err := said.Run()
	if err != nil {
		t.Fatal(err)
	}
	causes := map[fleet.MissCause]int{}
	for i := range a.Turns {
		x, y := a.Turns[i], b.Turns[i]
		causes[y.Miss.Cause]++
		if x.Miss != (fleet.Miss{}) {
			t.Fatalf("turn %d says %+v without being asked", i, x.Miss)
		}
		if y.First && y.Cached == 0 && y.Miss.Cause != fleet.MissNew && y.Miss.Cause != fleet.MissElsewhere {
			t.Errorf("turn %d is its conversation's first, and nothing of it is cached: %+v", i, y.Miss)
		}
		if y.Miss = (fleet.Miss{}); x != y {
			t.Fatalf("turn %d: %+v, and when asked why %+v", i, x, y)
		}
	}
	t.Log(causes)
	if causes[fleet.MissNew] == 0 || causes[fleet.MissNone] == 0 ||
		causes[fleet.MissElsewhere]+causes[fleet.MissEvicted] == 0 {
		t.Errorf("causes %v", causes)
	}
}
