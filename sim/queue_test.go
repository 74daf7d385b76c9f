package sim_test

import (
	"testing"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// TestEveryPolicyMayQueue: with any policy the router's queue holds prompts before busy engines, all of them come to an
// end, and without the queue none waits at the router.
func TestEveryPolicyMayQueue(t *testing.T) {
	g := simtrace.DefaultGenerator()
	g.Conversations = 250
	trace := g.Trace(4)
	for _, name := range policy.Names() {
		for _, q := range []route.QueueConfig{{}, {Ahead: route.DefaultAhead, Patience: route.DefaultPatience}} {
			p, err := policy.New(policy.Config{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			waited := 0
			r := drive.Replay{
				Trace: trace, Fleet: rig.Even(2, engine.DefaultConfig()), Policy: p, Queue: q, Content: true,
				Load: 1.3, Seed: 1,
				Announced: func(e *route.Entry) {
					if e.Decision != nil && e.Decision.Queued {
						waited++
					}
				},
			}
			o, err := r.Run()
			if err != nil {
				t.Fatalf("%s, %+v: %v", name, q, err)
			}
			if on := q.Ahead > 0; on != (waited > 0) {
				t.Errorf("%s, %+v: %d of %d prompts waited", name, q, waited, len(o.Turns))
			}
			for i := range o.Turns {
				if o.Turns[i].Failed || o.Turns[i].TTFT <= 0 {
					t.Fatalf("%s, %+v: %+v", name, q, o.Turns[i])
				}
			}
			if s := o.Routers[0].Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
				t.Errorf("%s, %+v: at the end: %+v", name, q, s)
			}
		}
	}
}
