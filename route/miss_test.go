package route_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// wrote is a prompt of so many blocks that are all its own, from the block at which it leaves another one on.
func wrote(blocks, from int, other uint64) *fleet.Content {
	c := &fleet.Content{Bytes: blocks * fleet.BlockBytes, Ends: []int{
		20 * fleet.BlockBytes, 60 * fleet.BlockBytes, blocks * fleet.BlockBytes,
	}}
	for i := range blocks {
		b := uint64(i+1) * 0x9e3779b97f4a7c15
		if i >= from {
			b ^= other << 20
		}
		c.Blocks = append(c.Blocks, b)
	}
	return c
}

// TestMiss: each cause for which a prompt is not in the cache is told from the others, with where and how much, and
// what is in the cache has none.
func TestMiss(t *testing.T) {
	usage := func(prompt, cached int) fleet.Usage {
		return fleet.Usage{PromptTokens: prompt, OutputTokens: 5, CachedTokens: cached, CachedKnown: true}
	}
	type world struct {
		r   *route.Router
		p   *costed
		now time.Time
	}
	ask := func(w *world, q *fleet.Request, u fleet.Usage) fleet.Miss {
		t.Helper()
		w.now = w.now.Add(time.Second)
		d, err := w.r.Decide(w.now, q)
		if err != nil {
			t.Fatal(err)
		}
		w.r.Observe(w.now, route.FirstByte{Lease: d.Lease})
		return w.r.Observe(w.now, route.Finished{Lease: d.Lease, Usage: u}).Ended.Miss
	}
	fails := func(w *world, q *fleet.Request, outcome fleet.Outcome) {
		t.Helper()
		w.now = w.now.Add(time.Second)
		d, err := w.r.Decide(w.now, q)
		if err != nil {
			t.Fatal(err)
		}
		w.r.Observe(w.now, route.Finished{Lease: d.Lease, Outcome: outcome})
	}
	turn := func(session, tenant string, c *fleet.Content) *fleet.Request {
		return &fleet.Request{
			ID: "r", Class: fleet.Turn, Model: "m", Session: session, Tenant: tenant, PromptBytes: c.Bytes, Content: c,
			Stream: true, Seed: 1,
		}
	}
	const n, tokens = 100, 3200
	for _, tt := range []struct {
		name  string
		play  func(w *world) fleet.Miss
		cause fleet.MissCause
		least int    // tokens
		where [2]int // blocks between which it begins to differ
		in    int    // message
	}{
		{"it is there", func(w *world) fleet.Miss {
			return ask(w, turn("s", "", wrote(n+4, n, 2)), usage(tokens+100, tokens))
		}, fleet.MissNone, 0, [2]int{}, 0},
		{"never there", func(w *world) fleet.Miss {
			return ask(w, turn("x", "", wrote(n, 0, 9)), usage(tokens, 0))
		}, fleet.MissNew, 0, [2]int{}, 0},
		{"never computed", func(w *world) fleet.Miss {
			fails(w, turn("x", "", wrote(n, 0, 9)), fleet.EngineError)
			w.p.pick = 1
			fails(w, turn("x", "", wrote(n, 0, 9)), fleet.ClientGone)
			return ask(w, turn("x", "", wrote(n, 0, 9)), usage(tokens, 0))
		}, fleet.MissNew, 0, [2]int{}, 0},
		{"moved, and not computed", func(w *world) fleet.Miss {
			w.p.pick = 1
			fails(w, turn("s", "", wrote(n+4, n, 2)), fleet.EngineError)
			return ask(w, turn("s", "", wrote(n+4, n, 2)), usage(tokens+100, 0))
		}, fleet.MissElsewhere, 2500, [2]int{}, 0},
		{"another tenant", func(w *world) fleet.Miss {
			return ask(w, turn("x", "t", wrote(n, n, 0)), usage(tokens, 0))
		}, fleet.MissTenant, 1, [2]int{}, 0},
		{"a new conversation, begun elsewhere", func(w *world) fleet.Miss {
			w.p.pick = 1
			return ask(w, turn("x", "", wrote(n, n, 0)), usage(tokens, 0))
		}, fleet.MissElsewhere, 1, [2]int{}, 0},
		{"too short to say", func(w *world) fleet.Miss {
			return ask(w, turn("x", "", wrote(4, 0, 9)), usage(100, 0))
		}, fleet.MissNone, 0, [2]int{}, 0},
		{"another endpoint", func(w *world) fleet.Miss {
			w.p.pick = 1
			return ask(w, turn("s", "", wrote(n+4, n, 2)), usage(tokens+100, 0))
		}, fleet.MissElsewhere, 3000, [2]int{}, 0},
		{"restarted", func(w *world) fleet.Miss {
			w.r.Observe(w.now, route.Probed{Endpoint: "e0", Report: fleet.Report{Refused: true}})
			w.r.Observe(w.now, route.Probed{
				Endpoint: "e0", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
			})
			return ask(w, turn("s", "", wrote(n+4, n, 2)), usage(tokens+100, 0))
		}, fleet.MissRestarted, 2500, [2]int{}, 0},
		{"replaced", func(w *world) fleet.Miss {
			for _, version := range []string{"1", "", "2"} {
				w.r.Observe(w.now, route.Probed{Endpoint: "e0", Report: fleet.Report{
					Healthy: true, Version: version, Models: []fleet.Model{{ID: "m"}},
				}})
			}
			return ask(w, turn("s", "", wrote(n+4, n, 2)), usage(tokens+100, 0))
		}, fleet.MissRestarted, 2500, [2]int{}, 0},
		{"not replaced", func(w *world) fleet.Miss {
			for _, version := range []string{"1", "", "1"} {
				w.r.Observe(w.now, route.Probed{Endpoint: "e0", Report: fleet.Report{
					Healthy: true, Version: version, Models: []fleet.Model{{ID: "m"}},
				}})
			}
			return ask(w, turn("s", "", wrote(n+4, n, 2)), usage(tokens+100, tokens))
		}, fleet.MissNone, 0, [2]int{}, 0},
		{"another prefix", func(w *world) fleet.Miss {
			return ask(w, turn("s", "", wrote(n+4, 40, 2)), usage(tokens+100, 1200))
		}, fleet.MissPrefix, 1500, [2]int{40, 42}, 2},
		{"another beginning", func(w *world) fleet.Miss {
			return ask(w, turn("s", "", wrote(n+4, 0, 2)), usage(tokens+100, 0))
		}, fleet.MissPrefix, 2500, [2]int{0, 20}, 1},
		{"a shorter prompt", func(w *world) fleet.Miss {
			return ask(w, turn("s", "", wrote(50, 30, 2)), usage(1600, 900))
		}, fleet.MissPrefix, 300, [2]int{30, 31}, 2},
		{"evicted, unforeseen", func(w *world) fleet.Miss {
			return ask(w, turn("s", "", wrote(n+4, n, 2)), usage(tokens+100, 0))
		}, fleet.MissEvicted, 2500, [2]int{}, 0},
		{"evicted", func(w *world) fleet.Miss {
			for i := range 200 {
				ask(w, turn(fmt.Sprint("other", i), "", wrote(n, 0, uint64(100+i))), usage(tokens, 0))
			}
			return ask(w, turn("s", "", wrote(n+4, n, 2)), usage(tokens+100, 0))
		}, fleet.MissEvicted, 2500, [2]int{}, 0},
		{"found against what was believed", func(w *world) fleet.Miss {
			for i := range 200 {
				ask(w, turn(fmt.Sprint("other", i), "", wrote(n, 0, uint64(100+i))), usage(tokens, 0))
			}
			return ask(w, turn("s", "", wrote(n+4, n, 2)), usage(tokens+100, tokens))
		}, fleet.MissNone, 0, [2]int{}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &costed{}
			r, now := explained(p, 2, true)
			for i := range 2 {
				r.Observe(now, route.Probed{Endpoint: fmt.Sprint("e", i), Report: fleet.Report{
					Healthy: true, CacheTokens: 60_000, Models: []fleet.Model{{ID: "m"}},
				}})
			}
			w := &world{r, p, now}
			ask(w, turn("s", "", wrote(n, n, 0)), usage(tokens, 0))
			m := tt.play(w)
			if m.Cause != tt.cause || m.Tokens < tt.least {
				t.Fatalf("%+v; want %s of at least %d tokens", m, tt.cause, tt.least)
			}
			if from, to := tt.where[0]*fleet.BlockBytes, tt.where[1]*fleet.BlockBytes; tt.cause == fleet.MissPrefix &&
				(m.From > from || m.To <= from || m.To > to+25*fleet.BlockBytes || m.Messages[0] > tt.in ||
					m.Messages[1] < tt.in) {
				t.Errorf("%+v; want it to differ at byte %d, in message %d", m, from, tt.in)
			}
			if tt.name == "evicted" && (m.Work < 400_000 || m.Unseen) || tt.name == "evicted, unforeseen" && !m.Unseen {
				t.Errorf("%+v", m)
			}
		})
	}
}

// TestMissOfAnotherModel: a conversation under an alias that goes on with another of its models has nothing cached
// there.
func TestMissOfAnotherModel(t *testing.T) {
	p, now := &costed{}, time.Unix(1000, 0)
	r := route.New(route.Config{Policy: func() pick.Policy { return p }, Explain: true, Aliases: []fleet.Alias{
		{Name: "a", Models: []string{"m", "n"}},
	}})
	r.Observe(now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
		{Name: "e0", URL: "http://e0", Weight: 1}, {Name: "e1", URL: "http://e1", Weight: 1},
	}})
	for i, model := range []string{"m", "n"} {
		r.Observe(now, route.Probed{
			Endpoint: fmt.Sprint("e", i), Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: model}}},
		})
	}
	for i, want := range []fleet.MissCause{fleet.MissNew, fleet.MissAdapter} {
		q := &fleet.Request{
			ID: "r", Class: fleet.Turn, Model: "a", Session: "s", PromptBytes: 12_800, Content: wrote(100, 100, 0),
			Stream: true, Seed: 1,
		}
		q.Pin = fmt.Sprint("e", i)
		d, err := r.Decide(now, q)
		if err != nil {
			t.Fatal(err)
		}
		r.Observe(now, route.FirstByte{Lease: d.Lease})
		if m := r.Observe(now, route.Finished{
			Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 3200, OutputTokens: 1},
		}).Ended.Miss; m.Cause != want {
			t.Errorf("turn %d: %+v, want %s", i, m, want)
		}
	}
}
