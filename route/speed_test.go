package route_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// watch picks the first candidate and records what it saw of it.
type watch struct{ seen pick.Candidate }

func (*watch) Needs() pick.Needs { return pick.Needs{} }

func (*watch) Hooks() pick.Hooks { return pick.Hooks{} }

func (w *watch) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	w.seen = v.Candidates[0]
	return pick.Choice{Index: 0, Reason: "watch"}
}

// bench is a router before two engines, the first of which computes prompts one after another: fixed ms, plus tokens at
// a rate.
type bench struct {
	t      *testing.T
	w      *watch
	r      *route.Router
	now    time.Time
	free   time.Time // when the engine has finished what it was sent
	rate   float64   // tokens a second
	fixed  time.Duration
	stream bool
	n      int
}

func newBench(t *testing.T, rate float64, fixed time.Duration, stream bool) *bench {
	w := &watch{}
	b := &bench{
		t: t, w: w, r: route.New(route.Config{Policy: func() pick.Policy { return w }}), now: time.Unix(1_000_000, 0),
		rate: rate, fixed: fixed, stream: stream,
	}
	b.r.Observe(b.now, route.Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://a", Weight: 1}, {Name: "b", URL: "http://b", Weight: 1},
	}})
	for _, name := range []string{"a", "b"} {
		b.r.Observe(b.now, route.Probed{
			Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
	}
	return b
}

// send sends a new prompt and returns when the engine has computed it.
func (b *bench) send(tokens int) (fleet.Lease, time.Time) {
	b.t.Helper()
	b.n++
	id := "c" + strconv.Itoa(b.n)
	d, err := b.r.Decide(b.now, &fleet.Request{ID: id, Model: "m", Session: id, PromptTokens: tokens, Stream: b.stream})
	if err != nil {
		b.t.Fatal(err)
	}
	begin := b.now
	if b.free.After(begin) {
		begin = b.free
	} else {
		begin = begin.Add(b.fixed)
	}
	b.free = begin.Add(time.Duration(float64(tokens) / b.rate * float64(time.Second)))
	return d.Lease, b.free
}

// end plays an answer of this many tokens at a constant pace.
func (b *bench) end(l fleet.Lease, computed time.Time, prompt, answer int, each time.Duration) {
	done := computed.Add(time.Duration(answer-1) * each)
	if b.stream {
		b.r.Observe(computed, route.FirstByte{Lease: l})
	} else {
		b.r.Observe(done, route.FirstByte{Lease: l})
	}
	b.r.Observe(done, route.Finished{
		Lease: l, Usage: fleet.Usage{PromptTokens: prompt, OutputTokens: answer, CachedKnown: true},
	})
	b.now = done
}

// learnt is the learnt prefill rate of the engine, in tokens per second.
func (b *bench) learnt() float64 { return b.r.Status(b.now)[0].PrefillPerSec }

func (b *bench) wantRate(share float64) {
	b.t.Helper()
	if got := b.learnt(); got < b.rate*(1-share) || got > b.rate*(1+share) {
		b.t.Errorf("learnt %.0f tokens/s, the engine does %.0f", got, b.rate)
	}
}

// TestSpeedIsLearnt: speed is learnt from prompts of all sizes with none in front.
func TestSpeedIsLearnt(t *testing.T) {
	for _, rate := range []float64{500, 3_000, 9_000, 50_000, 200_000} {
		for _, stream := range []bool{true, false} {
			t.Run(strconv.Itoa(int(rate))+"/"+strconv.FormatBool(stream), func(t *testing.T) {
				b, rng := newBench(t, rate, 8*time.Millisecond, stream), rand.New(rand.NewPCG(1, 2))
				for range 60 {
					tokens := 100 + rng.IntN(4000)
					l, at := b.send(tokens)
					b.end(l, at, tokens, 1+rng.IntN(40), 5*time.Millisecond)
					b.now = b.now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
				}
				b.wantRate(0.2)
				if _, at := b.send(2000); b.w.seen.WaitMs != 0 {
					t.Errorf("an idle endpoint is thought to be busy for %v ms, until %v", b.w.seen.WaitMs, at)
				}
			})
		}
	}
}

// TestSpeedAmongBothKinds: non-streamed answers between streams do not count as prompts.
func TestSpeedAmongBothKinds(t *testing.T) {
	b, rng := newBench(t, 9_000, 8*time.Millisecond, true), rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		b.stream = i%2 == 0
		tokens := 100 + rng.IntN(4000)
		l, at := b.send(tokens)
		b.end(l, at, tokens, 1+rng.IntN(400), 5*time.Millisecond)
		b.now = b.now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
		if i > 50 {
			b.wantRate(0.2)
		}
	}
}

// TestWaitingIsNotSlowness: the learnt speed does not depend on how long prompts wait for each other.
func TestWaitingIsNotSlowness(t *testing.T) {
	b, rng := newBench(t, 9_000, 8*time.Millisecond, true), rand.New(rand.NewPCG(1, 2))
	type sent struct {
		l      fleet.Lease
		at     time.Time
		tokens int
	}
	for range 20 {
		var all []sent
		for range 30 {
			tokens := 50 + rng.IntN(2000)
			l, at := b.send(tokens)
			all = append(all, sent{l, at, tokens})
		}
		wait, truth := b.w.seen.WaitMs, float64(b.free.Sub(b.now).Milliseconds())
		if b.learnt() > 0 && (wait < 0.75*truth || wait > 1.25*truth) {
			t.Errorf("the last of a burst is thought to wait %.0f ms, it waits about %.0f", wait, truth)
		}
		for _, x := range all {
			b.r.Observe(x.at, route.FirstByte{Lease: x.l})
		}
		for _, x := range all {
			b.r.Observe(b.free, route.Finished{
				Lease: x.l, Usage: fleet.Usage{PromptTokens: x.tokens, OutputTokens: 5, CachedKnown: true},
			})
		}
		b.now = b.free.Add(time.Second)
	}
	b.wantRate(0.15)
}

// TestPromptsOfOneStep: prompts whose first bytes come together share one measured time.
func TestPromptsOfOneStep(t *testing.T) {
	b := newBench(t, 9_000, 8*time.Millisecond, true)
	for range 50 {
		var leases []fleet.Lease
		for range 4 {
			l, _ := b.send(500)
			leases = append(leases, l)
		}
		for _, l := range leases {
			b.r.Observe(b.free, route.FirstByte{Lease: l})
		}
		for _, l := range leases {
			b.r.Observe(b.free.Add(50*time.Millisecond), route.Finished{
				Lease: l, Usage: fleet.Usage{PromptTokens: 500, OutputTokens: 5, CachedKnown: true},
			})
		}
		b.now = b.free.Add(time.Second)
	}
	b.wantRate(0.15)
}

// TestOutliersCountLittle: one answer in twenty takes a hundred times as long.
func TestOutliersCountLittle(t *testing.T) {
	b, rng := newBench(t, 9_000, 8*time.Millisecond, true), rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		tokens := 500 + rng.IntN(2000)
		l, at := b.send(tokens)
		if i%20 == 19 {
			at = at.Add(100 * at.Sub(b.now))
		}
		b.end(l, at, tokens, 20, 5*time.Millisecond)
		b.free = b.now
		b.now = b.now.Add(time.Second)
	}
	if got := b.learnt(); got < 5_000 || got > 10_000 {
		t.Errorf("learnt %.0f tokens/s, the engine does 9000 mostly", got)
	}
}

// TestSpeedFollows: an engine that becomes three times slower, and fast again, is tracked within fifty answers.
func TestSpeedFollows(t *testing.T) {
	b := newBench(t, 9_000, 8*time.Millisecond, true)
	for _, rate := range []float64{9_000, 3_000, 9_000} {
		b.rate = rate
		for range 50 {
			l, at := b.send(1500)
			b.end(l, at, 1500, 20, 5*time.Millisecond)
			b.now = b.now.Add(time.Second)
		}
		b.wantRate(0.35)
	}
}

// TestBeforeTheFirstSample: an endpoint without samples is assumed to be as fast as the others, or to have the default
// speed.
func TestBeforeTheFirstSample(t *testing.T) {
	b := newBench(t, 2_000, 8*time.Millisecond, true)
	b.send(100)
	if c := b.w.seen; c.MsPerToken < 0.01 || c.MsPerToken > 1 || c.FixedMs < 1 || c.FixedMs > 100 ||
		c.Utilisation < 0 || c.Utilisation > 1 {
		t.Errorf("assumed %+v", c)
	}
	b = newBench(t, 2_000, 8*time.Millisecond, true)
	for range 30 {
		l, at := b.send(1500)
		b.end(l, at, 1500, 20, 5*time.Millisecond)
		b.now = b.now.Add(time.Second)
	}
	if _, err := b.r.Decide(b.now, &fleet.Request{
		ID: "x", Model: "m", Session: "x", PromptTokens: 100, Exclude: []string{"a"},
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "c"} { // they have no samples
		b.r.Observe(b.now, route.Declared{
			Source: name, Endpoints: []fleet.Endpoint{{Name: name + "2", URL: "http://" + name, Weight: 1}},
		})
		b.r.Observe(b.now, route.Probed{
			Endpoint: name + "2", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
	}
	if _, err := b.r.Decide(b.now, &fleet.Request{
		ID: "y", Model: "m", Session: "y", PromptTokens: 100, Exclude: []string{"a"},
	}); err != nil {
		t.Fatal(err)
	}
	if c := b.w.seen; c.Name == "a" || c.MsPerToken < 0.4 || c.MsPerToken > 0.6 {
		t.Errorf("%s is thought to need %v ms a token, the endpoint that is known needs 0.5", c.Name, c.MsPerToken)
	}
}

// TestLateIsWaitedFor: an overdue prompt still counts as in front, but not for ever.
func TestLateIsWaitedFor(t *testing.T) {
	b := newBench(t, 9_000, 8*time.Millisecond, true)
	for range 30 {
		l, at := b.send(1500)
		b.end(l, at, 1500, 20, 5*time.Millisecond)
		b.now = b.now.Add(time.Second)
	}
	wait := func(after time.Duration) float64 {
		b.now = b.now.Add(after)
		if _, err := b.r.Decide(b.now, &fleet.Request{ID: "probe", Class: fleet.Auxiliary, Model: "m"}); err != nil {
			b.t.Fatal(err)
		}
		return b.w.seen.WaitMs
	}
	b.send(9000) // takes a second
	if got := wait(0); got < 850 || got > 1150 {
		t.Errorf("at first it waits %.0f ms, should be 1000", got)
	}
	if got := wait(600 * time.Millisecond); got < 250 || got > 550 {
		t.Errorf("after 600 ms it waits %.0f ms, should be 400", got)
	}
	if got := wait(900 * time.Millisecond); got < 200 {
		t.Errorf("half a second late it waits %.0f ms, should be as late again", got)
	}
	if got := wait(time.Hour); got > 10_000 {
		t.Errorf("an hour late it waits %.0f ms", got)
	}
}
