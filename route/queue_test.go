package route_test

import (
	"errors"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/ablation"
)

// TestWhoIsQueued: only prompts that can wait are queued, whole ones and those of prefill legs, and no retries or
// pinned ones. A decode leg waits for its prefill leg anyway.
func TestWhoIsQueued(t *testing.T) {
	aSecond := route.QueueConfig{Ahead: time.Second, Patience: 5}
	for _, tt := range []struct {
		name  string
		queue route.QueueConfig
		with  func(*fleet.Request)
		whole bool // it is queued where it is not split
		split bool // its prefill leg is
	}{
		{"a prompt", aSecond, func(*fleet.Request) {}, true, true},
		{"a non-streamed answer", aSecond, func(q *fleet.Request) { q.Stream = false }, true, true},
		{"its caller cannot wait", aSecond, func(q *fleet.Request) { q.MayQueue = false }, false, false},
		{"pinned", aSecond, func(q *fleet.Request) { q.Pin = "p" }, false, false},
		{"tried elsewhere", aSecond, func(q *fleet.Request) { q.Tried = []string{"b"} }, false, false},
		{"another prefiller failed", aSecond, func(q *fleet.Request) { q.TriedPrefill = []string{"b"} }, false, false},
		{"an embedding", aSecond, func(q *fleet.Request) { q.Class = fleet.Embed }, false, false},
		{"no queue is kept", route.QueueConfig{}, func(*fleet.Request) {}, false, false},
	} {
		for _, when := range []fleet.SplitWhen{fleet.WhenNever, fleet.WhenAlways} {
			now := time.Unix(1_000_000, 0)
			r := route.New(route.Config{
				Policy: func() pick.Policy { return firstLeast{} }, Queue: tt.queue,
				Disaggregation: route.Disaggregation{When: when}, Without: ablation.Order,
			})
			all := []string{"s", "p,model=m"}
			if when == fleet.WhenAlways {
				all = []string{"s", "p,model=m,role=prefill", "d,model=m,role=decode"}
			}
			r.Observe(now, declared(all))
			ask := func(id string, change func(*fleet.Request)) route.Plan {
				q := fleet.Request{
					Model: "m", MintedID: id, PromptTokens: 40_000, Stream: true, MayQueue: true, Splits: true,
				}
				change(&q)
				p, err := r.Decide(now, &q)
				if err != nil {
					t.Fatal(err)
				}
				return p.Plan
			}
			ask("in front", func(*fleet.Request) {})
			if when == fleet.WhenAlways { // so that the decoder has a prompt to compute too
				ask("in front of it", func(q *fleet.Request) { q.Splits = false })
			}
			p := ask("asked", tt.with)
			got, want := p.Queued, tt.whole
			if p.Split() {
				got, want = p.Prefill.Queued, tt.split
			}
			if load := r.Status(now)[0].Load; got != want || p.Split() && p.Queued || (load.Queued == 1) != want {
				t.Errorf("%s, split %s: queued %t, want %t; load %+v", tt.name, when, got, want, load)
			}
		}
	}
}

// TestFullQueueAndMemory: where as many requests wait as may, one that does not fit with its answer beside those that
// an engine has is refused, and one that does is sent.
func TestFullQueueAndMemory(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := route.New(route.Config{
		Policy: func() pick.Policy { return firstLeast{} }, Without: ablation.Order,
		Queue: route.QueueConfig{Ahead: time.Second, Most: 1},
	})
	r.Observe(now, declared([]string{"s", "a,model=m", "b,model=m"}))
	ask := func(tokens int, not string) (route.Decision, error) {
		p, err := r.Decide(now, &fleet.Request{
			Model: "m", PromptTokens: tokens, MaxTokens: 100, Stream: true, MayQueue: true, Exclude: []string{not},
		})
		return p.Decision, err
	}
	place := func(tokens int, not string) route.Decision {
		t.Helper()
		d, err := ask(tokens, not)
		if err != nil || d.Queued {
			t.Fatalf("%d tokens, not at %s: queued %v, %v; want it sent", tokens, not, d.Queued, err)
		}
		r.Observe(now, route.FirstByte{Lease: d.Lease})
		return d
	}
	for i, d := range []route.Decision{place(10_000, "a"), place(10_000, "a")} {
		r.Observe(now, route.Finished{Lease: d.Lease, Outcome: fleet.EngineError, Overfull: i == 0})
	}
	place(4_000, "a") // there is room for half of what did not fit
	if _, err := ask(40_000, "b"); err != nil {
		t.Fatal(err)
	}
	if d, err := ask(40_000, "b"); err != nil || !d.Queued {
		t.Fatalf("queued %v, %v; want that it waits for the prompt before it", d.Queued, err)
	}
	var full *route.QueueFullError
	if d, err := ask(6_050, "a"); !errors.As(err, &full) {
		t.Errorf("queued %v, %v; want that the queue is full", d.Queued, err)
	}
	place(5_900, "a")
}
