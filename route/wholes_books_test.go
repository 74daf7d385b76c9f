package route

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"pgregory.net/rapid"
)

// TestQueueOfWholesIsWhole: whatever happens to requests, and in which order, the prompts that stand in an endpoint's queue are those of
// open requests, in order, with their tokens; and when all have ended the queue is empty.
func TestQueueOfWholesIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New(Config{EjectAfter: 1 << 30, Policy: func() pick.Policy { return firstOne{} }})
		now := time.Unix(1_000_000, 0)
		declare := func(url string) {
			r.Observe(now, Declared{Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: url, Weight: 1}}})
			r.Observe(now, Probed{Endpoint: "a", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}, Slots: rapid.IntRange(0, 4).Draw(t, "slots")}})
		}
		declare("http://a")
		var open []fleet.Lease
		check := func() {
			s := &r.endpoints[0].speed
			var tokens, last int64
			for _, i := range s.wholes.open {
				f := &r.flights[i]
				if !f.open || f.stream || f.prefilled || f.ep != r.endpoints[0] || f.end <= last {
					t.Fatalf("in the queue after %d: %+v", last, f)
				}
				last, tokens = f.end, tokens+f.prefill
			}
			if tokens != s.wholes.tokens {
				t.Fatalf("%d tokens in the queue, counted %d", tokens, s.wholes.tokens)
			}
			if w := r.wait(r.endpoints[0], now, 0.1, 0, r.endpoints[0].load.Requests); !(w >= 0 && w < 1e9) {
				t.Fatalf("a wait of %v ms", w)
			}
			if s.samples > 0 && !(s.perToken >= leastPerToken && s.perToken < 1e6 && s.perStep >= 0 && s.noise >= 0) {
				t.Fatalf("learnt %+v", s)
			}
		}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0, 1, 2:
				tokens := rapid.IntRange(0, 5000).Draw(t, "tokens")
				d, err := r.Decide(now, &fleet.Request{ID: fmt.Sprint(n), Model: "m", Session: fmt.Sprint("s", n%5), PromptTokens: tokens, Stream: rapid.Bool().Draw(t, "stream")})
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, d.Lease)
			case 3:
				if len(open) > 0 {
					r.Observe(now, FirstByte{Lease: open[rapid.IntRange(0, len(open)-1).Draw(t, "of")]})
				}
			case 4, 5, 6:
				if len(open) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "of")
				outcome := rapid.SampledFrom([]fleet.Outcome{fleet.OK, fleet.OK, fleet.OK, fleet.EngineError, fleet.ClientGone}).Draw(t, "outcome")
				if outcome == fleet.OK {
					r.Observe(now, FirstByte{Lease: open[i]})
				}
				r.Observe(now, Finished{Lease: open[i], Outcome: outcome, Usage: fleet.Usage{
					PromptTokens: rapid.IntRange(0, 5000).Draw(t, "prompt"), OutputTokens: rapid.IntRange(0, 100).Draw(t, "answer"), CachedKnown: rapid.Bool().Draw(t, "known"),
				}})
				open = append(open[:i], open[i+1:]...)
			default:
				if rapid.IntRange(0, 5).Draw(t, "moves") == 0 {
					declare(fmt.Sprint("http://a", n))
				}
			}
			check()
		}
		for _, l := range open {
			r.Observe(now, Finished{Lease: l})
			check()
		}
		if s := &r.endpoints[0].speed; len(s.wholes.open) != 0 || s.wholes.tokens != 0 || s.ahead != 0 || s.prompts != 0 {
			t.Fatalf("left in the queue: %+v, %d tokens of %d streams", s.wholes, s.ahead, s.prompts)
		}
	})
}

type firstOne struct{}

func (firstOne) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{Reason: "first"} }
