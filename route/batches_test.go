package route_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// burst sends n prompts of this many tokens at once and returns when the engine has computed each.
func (b *bench) burst(n, tokens int) (leases []fleet.Lease, computed []time.Time) {
	b.t.Helper()
	for range n {
		l, at := b.send(tokens)
		leases, computed = append(leases, l), append(computed, at)
	}
	return leases, computed
}

// looks is the router's current view of the first engine.
func (b *bench) looks() pick.Candidate {
	b.t.Helper()
	d, err := b.r.Decide(b.now, &fleet.Request{ID: "look", Class: fleet.Auxiliary, Model: "m"})
	if err != nil {
		b.t.Fatal(err)
	}
	seen := b.w.seen
	b.r.Observe(b.now, route.Finished{Lease: d.Lease})
	return seen
}

// within reports whether got differs from want by at most a share of it.
func within(got, want, share float64) bool { return math.Abs(got-want) <= share*want }

// TestSpeedShowsAtFirstBytes: the speed of an engine and the waits there are known from first bytes on, long before the
// first answer ends.
func TestSpeedShowsAtFirstBytes(t *testing.T) {
	for _, rate := range []float64{1_000, 3_000, 9_000, 40_000} {
		b := newBench(t, rate, 8*time.Millisecond, true)
		leases, computed := b.burst(20, 4000)
		for i := range 3 {
			b.now = computed[i]
			b.r.Observe(b.now, route.FirstByte{Lease: leases[i]})
		}
		c := b.looks()
		if !within(c.MsPerToken, 1000/rate, 0.1) {
			t.Errorf("%.0f tokens/s: after three first bytes a token is thought to take %.3f ms, it takes %.3f",
				rate, c.MsPerToken, 1000/rate)
		}
		if left := float64(b.free.Sub(b.now).Microseconds()) / 1000; !within(c.WaitMs, left, 0.15) {
			t.Errorf("%.0f tokens/s: a new prompt is thought to wait %.0f ms, it waits %.0f", rate, c.WaitMs, left)
		}
	}
}

// TestUsageTakesThePlaceOfWhatWasPredicted: nine tenths of each prompt were cached, against the prediction.
func TestUsageTakesThePlaceOfWhatWasPredicted(t *testing.T) {
	b := newBench(t, 3_000, 8*time.Millisecond, true)
	for range 40 {
		l, at := b.send(400) // the tokens it computes
		b.r.Observe(at, route.FirstByte{Lease: l})
		b.now = at.Add(time.Second)
		b.r.Observe(b.now, route.Finished{
			Lease: l, Usage: fleet.Usage{PromptTokens: 4000, CachedTokens: 3600, OutputTokens: 10, CachedKnown: true},
		})
	}
	b.wantRate(0.15)
	if c := b.looks(); !within(c.MsPerToken, 1.0/3, 0.15) {
		t.Errorf("a token is thought to take %.3f ms, it takes 0.333", c.MsPerToken)
	}
}

// TestNothingIsLeftOfWhatHasFailed: turns that end without an answer teach nothing and no longer count.
func TestNothingIsLeftOfWhatHasFailed(t *testing.T) {
	for _, o := range []fleet.Outcome{fleet.ClientGone, fleet.Abandoned, fleet.OK} {
		b := newBench(t, 1_000, 8*time.Millisecond, true)
		assumed := b.looks().MsPerToken
		leases, computed := b.burst(8, 2000)
		for i, l := range leases {
			b.now = computed[i]
			b.r.Observe(b.now, route.FirstByte{Lease: l})
		}
		if got := b.looks().MsPerToken; got < 5*assumed {
			t.Errorf("%v: %.3f ms a token at first, and %.3f after it took 1", o, assumed, got)
		}
		for _, l := range leases {
			b.r.Observe(b.now, route.Finished{Lease: l, Outcome: o}) // OK without usage teaches nothing either
		}
		if got := b.looks().MsPerToken; got != assumed {
			t.Errorf("%v: %v ms a token is left of nothing, want %v", o, got, assumed)
		}
		if err := b.r.Idle(); err != nil {
			t.Error(err)
		}
	}
}

// TestMoreFirstBytesThanAreKept: first bytes beyond the number of batches kept no longer count.
func TestMoreFirstBytesThanAreKept(t *testing.T) {
	b := newBench(t, 9_000, 0, true)
	leases, computed := b.burst(1500, 500)
	for i, l := range leases {
		b.now = computed[i]
		b.r.Observe(b.now, route.FirstByte{Lease: l})
	}
	if c := b.looks(); !within(c.MsPerToken, 1.0/9, 0.1) {
		t.Errorf("a token is thought to take %.3f ms, it takes 0.111", c.MsPerToken)
	}
	for _, l := range leases {
		b.r.Observe(b.now, route.Finished{Lease: l, Outcome: fleet.ClientGone})
	}
	if err := b.r.Idle(); err != nil {
		t.Error(err)
	}
}

// TestShortPromptsDoNotUndoLongOnes: a first byte is off by up to an engine step, a large share of a short prompt's
// time and a small one of a long prompt's.
func TestShortPromptsDoNotUndoLongOnes(t *testing.T) {
	b := newBench(t, 9_000, 8*time.Millisecond, true)
	for range 30 {
		l, at := b.send(20_000)
		b.end(l, at, 20_000, 20, 5*time.Millisecond)
		b.now = b.now.Add(time.Second)
	}
	for range 3 {
		l, at := b.send(500)
		at = at.Add(220 * time.Millisecond) // another request's 2,000 tokens
		b.end(l, at, 500, 20, 5*time.Millisecond)
		b.free = b.now
		b.now = b.now.Add(time.Second)
	}
	b.wantRate(0.02)
}

// TestLongPromptsDoNotOutweighAll: when an engine becomes slower, short prompts update its speed although long ones
// came before.
func TestLongPromptsDoNotOutweighAll(t *testing.T) {
	b := newBench(t, 9_000, 8*time.Millisecond, true)
	for range 5 {
		l, at := b.send(200_000)
		b.end(l, at, 200_000, 20, 5*time.Millisecond)
		b.now = b.now.Add(time.Second)
	}
	b.rate = 4_500
	for range 60 {
		l, at := b.send(2_000)
		b.end(l, at, 2_000, 20, 5*time.Millisecond)
		b.now = b.now.Add(time.Second)
	}
	if c := b.looks(); !within(c.FixedMs+2000*c.MsPerToken, 8+2000/4.5, 0.1) {
		t.Errorf("2,000 tokens are thought to take %.0f + %.0f ms, they take 8 + 444", c.FixedMs, 2000*c.MsPerToken)
	}
}

// all records every candidate it sees and picks each in turn.
type all struct {
	n    int
	seen []pick.Candidate
}

func (*all) Needs() pick.Needs { return pick.Needs{} }

func (*all) Hooks() pick.Hooks { return pick.Hooks{} }

func (a *all) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	a.seen = append(a.seen[:0], v.Candidates...)
	a.n++
	return pick.Choice{Index: a.n % len(v.Candidates), Reason: "all"}
}

// TestSpeedsOfAMixedFleet: each engine's speed is learnt within 3 %, and of one that becomes slower within 15 %.
func TestSpeedsOfAMixedFleet(t *testing.T) {
	rates := []float64{9_000, 9_200, 3_000, 8_900, 3_050}
	a := &all{}
	r, now := route.New(route.Config{Policy: func() pick.Policy { return a }}), time.Unix(1_000_000, 0)
	var declared []fleet.Endpoint
	index := map[string]int{}
	for i := range rates {
		name := "e" + strconv.Itoa(i)
		declared = append(declared, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1})
		index[name] = i
	}
	r.Observe(now, route.Declared{Source: "test", Endpoints: declared})
	for _, e := range declared {
		r.Observe(now, route.Probed{
			Endpoint: e.Name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
	}
	turns := func(n int) {
		t.Helper()
		for range n {
			id := "c" + strconv.Itoa(a.n)
			d, err := r.Decide(now, &fleet.Request{ID: id, Model: "m", Session: id, PromptTokens: 5000, Stream: true})
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(8*time.Millisecond + time.Duration(5000/rates[index[d.Endpoint.Name]]*1e9))
			r.Observe(now, route.FirstByte{Lease: d.Lease})
			now = now.Add(time.Second)
			r.Observe(now, route.Finished{
				Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 5000, OutputTokens: 10, CachedKnown: true},
			})
		}
	}
	learnt := func(share float64) {
		t.Helper()
		for i, rate := range rates {
			if got := a.seen[i].MsPerToken; !within(got, 1000/rate, share) {
				t.Errorf("%v ms a token, of an engine of %v tokens a second", got, rate)
			}
		}
	}
	turns(100)
	learnt(0.03)
	rates[1] = 4_000
	turns(300)
	learnt(0.15)
}
