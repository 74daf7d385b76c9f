package route

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/backlog"
	"pgregory.net/rapid"
)

// TestInterruptionsAreCounted: a prompt makes one token late for each step that it takes and each who is answered beside it, a short one
// none, and where roles are not free nothing is counted.
func TestInterruptionsAreCounted(t *testing.T) {
	for _, c := range []struct {
		when    When
		answers int
		tokens  int
		want    float64
	}{
		{WhenFree, 0, 5000, 0},
		{WhenFree, 3, 20, 0}, // 2 ms at the speed that is assumed at first, less than a token takes
		{WhenFree, 3, 2000, 3},
		{WhenFree, 3, 5000, 9},
		{WhenFree, 3, 9000, 9}, // of which 4,000 were cached
		{WhenTime, 3, 5000, 0},
	} {
		r, now := freeRouter(1), time.Unix(1000, 0)
		r.cfg.Disaggregation.When = c.when
		ask := func(tokens int, id string) fleet.Lease {
			plan, err := r.Decide(now, &fleet.Request{Model: "m", PromptTokens: tokens, Stream: true, MintedID: id})
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Millisecond)
			r.Observe(now, FirstByte{Lease: plan.Lease})
			return plan.Lease
		}
		for i := range c.answers {
			ask(1, strconv.Itoa(i))
		}
		l := ask(c.tokens, "prompt")
		r.Observe(now, Finished{Lease: l, Outcome: fleet.OK, Usage: fleet.Usage{PromptTokens: c.tokens, CachedTokens: max(0, c.tokens-5000), OutputTokens: 1, CachedKnown: true}})
		if r.late.late != c.want {
			t.Errorf("%s, a prompt of %d tokens beside %d answers: %v late, want %v", c.when, c.tokens, c.answers, r.late.late, c.want)
		}
	}
}

// TestInterruptionsWeigh: what an answer's wait for prompts counts for rises while more tokens come late than may, falls while fewer do,
// and stays within its bounds.
func TestInterruptionsWeigh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := freeRouter(1)
		j, u := backlog.Job{Work: backlog.Work{Class: fleet.Turn}}, fleet.Usage{OutputTokens: rapid.IntRange(2, 1000).Draw(t, "tokens")}
		for range rapid.IntRange(1, 400).Draw(t, "answers") {
			r.late.late += rapid.Float64Range(0, 20).Draw(t, "late")
			before := r.late.of()
			r.learnInterruptions(&j, &u)
			share, w := r.late.late/r.late.tokens, r.late.weight
			switch {
			case !(w >= leastWeight && w <= mostWeight):
				t.Fatalf("weight %v", w)
			case share > lateShare && w < before, share < lateShare && w > before:
				t.Fatalf("%.4f of the tokens late, weight %v after %v", share, w, before)
			case math.Abs(w/before-1) > lateStep+1e-9:
				t.Fatalf("one answer moves the weight from %v to %v", before, w)
			}
		}
	})
}
