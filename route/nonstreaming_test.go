package route_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// taught is a bench whose engine's speed, 9,000 tokens/s, is known.
func taught(t *testing.T) *bench {
	b := newBench(t, 9_000, 8*time.Millisecond, true)
	for range 40 {
		l, at := b.send(1500)
		b.end(l, at, 1500, 20, 5*time.Millisecond)
		b.now = b.now.Add(time.Second)
	}
	b.wantRate(0.1)
	return b
}

// wantWait checks the predicted wait of a prompt that arrives now.
func (b *bench) wantWait(what string, from, to float64) {
	b.t.Helper()
	if _, err := b.r.Decide(b.now, &fleet.Request{ID: "probe", Class: fleet.Auxiliary, Model: "m"}); err != nil {
		b.t.Fatal(err)
	}
	if got := b.w.seen.WaitMs; got < from || got > to {
		b.t.Errorf("%s: thought to wait %.0f ms, should be %.0f to %.0f", what, got, from, to)
	}
}

func (b *bench) first(l fleet.Lease) { b.r.Observe(b.now, route.FirstByte{Lease: l}) }

// whole sends a prompt with a non-streamed answer.
func (b *bench) whole(tokens int) fleet.Lease {
	b.stream = false
	l, _ := b.send(tokens)
	b.stream = true
	return l
}

func (b *bench) answered(l fleet.Lease, prompt, answer int) {
	b.first(l)
	b.r.Observe(b.now, route.Finished{
		Lease: l, Usage: fleet.Usage{PromptTokens: prompt, OutputTokens: answer, CachedKnown: true},
	})
}

// TestNonStreamingInTheQueue: prompts of non-streamed answers count as in front until they are known or expected to be
// computed.
func TestNonStreamingInTheQueue(t *testing.T) {
	t.Run("behind a stream", func(t *testing.T) {
		b := taught(t)
		l, at := b.send(900)
		b.whole(9000)
		b.now = at
		b.first(l)
		b.wantWait("the stream's prompt is computed", 900, 1100)
		b.now = b.now.Add(600 * time.Millisecond)
		b.wantWait("600 ms later", 300, 500)
		b.now = b.now.Add(600 * time.Millisecond)
		b.wantWait("it should be computed", 0, 0)
	})
	t.Run("in front of a stream", func(t *testing.T) {
		b := taught(t)
		b.whole(9000)
		l, _ := b.send(900)
		b.now = b.now.Add(500 * time.Millisecond) // the engine was faster than predicted
		b.first(l)
		b.wantWait("all are computed", 0, 0)
	})
	t.Run("answered early", func(t *testing.T) {
		b := taught(t)
		l := b.whole(9000)
		b.whole(1800)
		b.now = b.now.Add(100 * time.Millisecond)
		b.answered(l, 9000, 2)
		b.wantWait("what came later is left", 120, 220)
	})
	t.Run("failed", func(t *testing.T) {
		b := taught(t)
		l := b.whole(9000)
		b.whole(1800)
		b.r.Observe(b.now, route.Finished{Lease: l, Outcome: fleet.EngineError})
		b.wantWait("the other one is left", 170, 220)
	})
	t.Run("late", func(t *testing.T) {
		b := taught(t)
		for range 8 {
			b.whole(1000)
		}
		b.now = b.now.Add(20 * time.Second)
		b.wantWait("none of eight has been answered", 2000, 4000)
		b.whole(1000)
		b.wantWait("one more", 2000, 4200)
		b.now = b.now.Add(time.Hour)
		b.wantWait("an hour later", 2000, 4200)
	})
	t.Run("a long answer", func(t *testing.T) {
		b := taught(t)
		b.whole(1000)
		b.now = b.now.Add(250 * time.Millisecond) // 20 tokens would take 210 ms
		b.wantWait("it may be longer than others", 0, 0)
	})
}

// TestNonStreamingInFrontOfAPlace: where all slots are taken, requests still in prefill keep theirs longer.
func TestNonStreamingInFrontOfAPlace(t *testing.T) {
	wait := func(stream bool) float64 {
		b := taught(t)
		b.r.Observe(b.now, route.Probed{
			Endpoint: "a", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}, Slots: 4},
		})
		b.stream = stream
		for range 6 {
			b.send(1800)
		}
		b.wantWait("", 1, 1e9)
		return b.w.seen.WaitMs
	}
	if s, w := wait(true), wait(false); w < 0.8*s || w > 1.25*s {
		t.Errorf("behind six prompts and four places a prompt is thought to wait %.0f ms where they are streamed, "+
			"%.0f where they are not", s, w)
	}
}

// TestSpeedOfNonStreaming: speed is learnt from overlapping non-streamed answers in any order.
func TestSpeedOfNonStreaming(t *testing.T) {
	b, rng := newBench(t, 9_000, 8*time.Millisecond, false), rand.New(rand.NewPCG(3, 4))
	type open struct {
		l       fleet.Lease
		done    time.Time
		in, out int
	}
	var all []open
	for range 400 {
		in, out := 100+rng.IntN(3000), 1+rng.IntN(60)
		l, at := b.send(in)
		all = append(all, open{l, at.Add(time.Duration(out-1) * 5 * time.Millisecond), in, out})
		next := b.now.Add(time.Duration(rng.IntN(400)) * time.Millisecond)
		for {
			i := -1
			for j := range all {
				if !all[j].done.After(next) && (i < 0 || all[j].done.Before(all[i].done)) {
					i = j
				}
			}
			if i < 0 {
				break
			}
			x := all[i]
			all = append(all[:i], all[i+1:]...)
			b.now = x.done
			b.answered(x.l, x.in, x.out)
		}
		b.now = next
	}
	b.wantRate(0.2)
}
