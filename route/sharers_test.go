package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// sharersSeen keeps how many requests share what is cached of the prompt that was placed last.
type sharersSeen struct{ n *int }

func (sharersSeen) Needs() pick.Needs {
	return pick.Needs{Name: "sharers_seen", Content: true, Sharers: true}
}

func (sharersSeen) Hooks() pick.Hooks { return pick.Hooks{} }

func (s sharersSeen) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	*s.n = len(v.Sharers)
	return pick.Choice{}
}

// TestSharersOfFirstTurns: a policy is told the outstanding first turns that share a prompt where a copy of it may pay:
// at a first turn, while another endpoint has less of it and waits less.
func TestSharersOfFirstTurns(t *testing.T) {
	for name, row := range map[string]struct {
		session string
		beside  bool // the other endpoint has as long a queue
		want    int
	}{
		"a first turn":                  {"new", false, 2},
		"a later turn":                  {"old", false, 0},
		"where none has a shorter wait": {"new", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			seen, now := 0, time.Unix(1_000_000, 0)
			r := route.New(route.Config{Policy: func() pick.Policy { return sharersSeen{&seen} }})
			r.Observe(now, route.Declared{Source: "test", Endpoints: []fleet.Endpoint{
				{Name: "a", URL: "http://a", Weight: 1}, {Name: "b", URL: "http://b", Weight: 1},
			}})
			for _, e := range []string{"a", "b"} {
				r.Observe(now, route.Probed{Endpoint: e, Report: fleet.Report{
					Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}},
				}})
			}
			ask := func(session, pin string, first uint64) {
				c := &fleet.Content{Bytes: 100 * fleet.BlockBytes}
				for i := range uint64(100) {
					c.Blocks = append(c.Blocks, first+i)
				}
				if _, err := r.Decide(now, &fleet.Request{
					Model: "m", Session: session, Pin: pin, PromptBytes: c.Bytes, Content: c, Seed: 1,
				}); err != nil {
					t.Fatal(err)
				}
			}
			ask("old", "a", 1)
			ask("another", "a", 1)
			if row.beside {
				for _, other := range []string{"x", "y", "z"} {
					ask(other, "b", 1000)
				}
			}
			ask(row.session, "", 1)
			if seen != row.want {
				t.Errorf("%d share it, want %d", seen, row.want)
			}
		})
	}
}
