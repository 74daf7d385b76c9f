package health

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// TestUnanswered: an endpoint that answers no probe while it computes is the second choice, with or without failures of
// requests, and as good as before when it answers again.
func TestUnanswered(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, ejectedBefore := range map[string]bool{"by probes alone": false, "after an ejection": true} {
		t.Run(name, func(t *testing.T) {
			tab := New(Config{EjectAfter: 1, EjectFor: time.Second, EjectMax: time.Second, EjectShare: 1})
			tab.AddEndpoint(0)
			tab.Probe(now, 0, true, "")
			if ejectedBefore {
				tab.Conclude(now, 0, &Verdict{Outcome: fleet.EngineError, Sent: now},
					func() Census { return Census{All: 2} })
				now = now.Add(2 * time.Second)
			}
			for _, answers := range []bool{true, false, true} {
				tab.Probe(now, 0, true, "it is well")
				if !answers {
					tab.Unanswered(0, "it computes")
				}
				rank, state := Fit, fleet.StateUp
				if !answers {
					rank, state = Strained, fleet.StateBusy
				}
				r := tab.Reader
				if g, s := r.Rank(now, 0, 0, ObeyEjections), r.State(now, 0); g != rank || s != state {
					t.Errorf("answers %v: rank %v, state %v; want %v, %v", answers, g, s, rank, state)
				}
				if why := r.Why(0, state); !answers && why != "it computes" {
					t.Errorf("it is busy because of %q", why)
				}
			}
		})
	}
}
