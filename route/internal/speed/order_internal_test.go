package speed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// TestOrderIsLearnt: it is soon known whether an engine computes prompts one after another, at any load, order and
// length, with a queue and without.
func TestOrderIsLearnt(t *testing.T) {
	for name, tt := range map[string]struct {
		kind
		inOrder bool
		load    float64 // up to which it is learnt
		least   float64 // share of prompts after the first twenty
	}{
		"in turn": {inTurn, true, 2, 0.95}, "all at once": {atOnce, false, 2, 0.95},
		// beyond that few prompts have no company
		"several in a batch": {inSlots, true, 1, 0.95}, "the latest first": {latest, true, 0.5, 0.7},
	} {
		for _, load := range []float64{0.3, 0.6, 0.9, 1.2} {
			for i := range 4 {
				if load > tt.load {
					continue
				}
				ahead, even := time.Duration(i/2)*500*time.Millisecond, i%2 == 0
				right, n := learntInTime(t, tt.kind, tt.inOrder, load, ahead, even)
				if float64(right) < tt.least*float64(n) {
					t.Errorf("%s, load %.1f, even %t, %v ahead: known for %d of %d prompts",
						name, load, even, ahead, right, n)
				}
			}
		}
	}
}

// learntInTime counts the prompts, after the first twenty, at which it is known whether an engine computes in order.
func learntInTime(t *testing.T, k kind, inOrder bool, load float64, ahead time.Duration, even bool) (right, n int) {
	for seed := range uint64(5) {
		rnd, e := rand.New(rand.NewPCG(seed, 1)), newEngine(t, ahead, k)
		for i := range 200 {
			tokens := 4000
			if !even {
				tokens = int(500 * math.Exp(3*rnd.Float64()))
			}
			e.ask(tokens)
			e.run(time.Duration(4000 * float64(k.each) / load * rnd.ExpFloat64()))
			if i < 20 {
				continue
			}
			n++
			if yes, known := e.InOrder(0); known && yes == inOrder {
				right++
			}
		}
		e.run(10 * time.Hour)
		e.idle()
	}
	return right, n
}

// TestOrderOfBursts: prompts that arrive together delay each other where several are batched. The first has none in
// front but does not count as without company; nor does a long prompt that is followed by more short ones than are
// remembered.
func TestOrderOfBursts(t *testing.T) {
	for name, tt := range map[string]struct {
		kind
		burst func(e *engine)
	}{
		"in turn": {inTurn, four}, "in slots": {inSlots, four}, "latest first": {latest, four},
		"a long one and many short ones, in slots": {inSlots, func(e *engine) {
			e.ask(8000)
			for range 100 {
				e.ask(420)
				e.run(30 * time.Millisecond)
			}
		}},
	} {
		e := newEngine(t, time.Second, tt.kind)
		for range 2 {
			e.ask(1000)
			e.run(time.Minute)
		}
		for range 4 {
			tt.burst(e)
			e.run(time.Minute)
		}
		if yes, known := e.InOrder(0); !yes || !known {
			t.Errorf("%s: not known after four bursts", name)
		}
		if e.ask(20_000); !e.ask(4000) {
			t.Errorf("%s: the second of two prompts is not queued", name)
		}
	}
}

// TestFirstBurst: of long prompts that come before it is known how an engine computes them it is sent two, by whose
// times that is known. All of short ones are sent.
func TestFirstBurst(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tokens int
		sent   []bool
	}{
		{"long", 20_000, []bool{true, true, false, false}},
		{"short", 400, []bool{true, true, true, true}},
	} {
		for _, k := range []kind{inTurn, atOnce} {
			e := newEngine(t, 500*time.Millisecond, k)
			for i, sent := range tt.sent {
				if queued := e.ask(tt.tokens); queued == sent {
					t.Errorf("%s prompt %d: queued %t", tt.name, i, queued)
				}
			}
			e.run(time.Hour)
			if _, known := e.InOrder(0); e.done != len(tt.sent) || tt.tokens > 4000 && !known {
				t.Errorf("%s: %d are answered; known: %t", tt.name, e.done, known)
			}
		}
	}
}

// TestFirstAnswersInOnePiece: they do not show how an engine computes prompts, so all are sent.
func TestFirstAnswersInOnePiece(t *testing.T) {
	e := newEngine(t, 500*time.Millisecond, atOnce)
	for i := range 4 {
		w := backlog.Work{Class: fleet.Turn, PromptTokens: 20_000, MayQueue: true}
		if _, queued := e.open(w); queued {
			t.Errorf("prompt %d is queued", i)
		}
	}
}

func four(e *engine) {
	for range 4 {
		e.ask(4000)
	}
}

// TestNoQueueWhereAllIsComputedAtOnce: a fake engine, or an address with many engines behind it, is soon sent
// everything again. Queueing would waste three quarters of its capacity.
func TestNoQueueWhereAllIsComputedAtOnce(t *testing.T) {
	mean := map[time.Duration]time.Duration{}
	for _, ahead := range []time.Duration{0, 500 * time.Millisecond} {
		e := newEngine(t, ahead, atOnce)
		for range 200 {
			e.ask(20_000) // 2 s
			e.run(500 * time.Millisecond)
		}
		if e.run(time.Hour); e.done != 200 {
			t.Fatalf("%d of 200 are answered", e.done)
		}
		mean[ahead] = e.took / 200
	}
	if with, without := mean[500*time.Millisecond], mean[0]; with > without*11/10 {
		t.Errorf("a prompt takes %v with a queue, %v without", with, without)
	}
}
