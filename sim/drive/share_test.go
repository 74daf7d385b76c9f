package drive_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/figures"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// TestRoutersTellEachOther: a conversation stays at home across routers whose news arrive in time, and only then.
func TestRoutersTellEachOther(t *testing.T) {
	g := trace.DefaultGenerator()
	g.Conversations, g.Turns = 60, 6
	trace := g.Trace(1)
	share := func(share bool, staleness time.Duration) float64 {
		r := drive.Replay{
			Trace: trace, Fleet: rig.Even(4, engine.DefaultConfig()), Load: 0.3, Routers: 4, IDs: true, Share: share,
			Staleness: staleness, Policy: func() pick.Policy { return &atHome{} },
		}
		o := replay(t, r)
		return figures.Of(&r, o, figures.Objective{}).HomeShare
	}
	none, late, soon, once := share(false, 0), share(true, time.Hour), share(true, 50*time.Millisecond), share(true, 0)
	if once != 1 || soon != 1 {
		t.Errorf("at home %v and %v of the turns, want all: the next turn comes long after", once, soon)
	}
	if none > 0.8 || late > 0.8 {
		t.Errorf("at home %v and %v of the turns without news", none, late)
	}
}

// TestRoutersHearOfFailures: engines that fail, reject and return leave no router with an open lease (replay checks),
// in the same way each time.
func TestRoutersHearOfFailures(t *testing.T) {
	c := engine.DefaultConfig()
	c.QueueLimit = 2
	f := rig.Even(3, c)
	f.Endpoints[1].Outages = []rig.Outage{{At: 5 * time.Second, For: 20 * time.Second}}
	g := trace.DefaultGenerator()
	g.Conversations, g.Turns = 80, 3
	run := func() []drive.Played {
		return replay(t, drive.Replay{
			Trace: g.Trace(3), Fleet: f, Load: 1.5, Routers: 3, Share: true, Staleness: 20 * time.Millisecond,
		}).Turns
	}
	first := run()
	if !slices.Equal(first, run()) {
		t.Error("two runs differ")
	}
	retried := slices.ContainsFunc(first, func(p drive.Played) bool { return p.Retries > 0 })
	if !retried {
		t.Error("nothing was tried again: the test shows nothing")
	}
}

func TestStalenessIsChecked(t *testing.T) {
	for _, d := range []time.Duration{-1, 2 * time.Hour} {
		r := drive.Replay{
			Trace: trace.DefaultGenerator().Trace(1), Fleet: rig.Even(2, engine.DefaultConfig()), Load: 0.5, Routers: 2,
			Share: true, Staleness: d, Policy: func() pick.Policy { return &inTurn{} },
		}
		if _, err := r.Run(); err == nil {
			t.Errorf("%v was taken", d)
		}
	}
}
