package route_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/route"
)

// TestInTurn: the router soon learns whether an engine computes prompts one after another, at any load, order and
// length, with a queue and without.
func TestInTurn(t *testing.T) {
	for name, e := range map[string]struct {
		engine engine
		inTurn bool
		load   float64 // up to which it is learnt
		least  float64 // share of prompts after the first twenty
	}{
		"in turn": {inTurn, true, 2, 0.95}, "all at once": {atOnce, false, 2, 0.95},
		// beyond that few prompts are alone
		"several in a batch": {inSlots, true, 1, 0.95}, "the latest first": {latest, true, 0.5, 0.7},
	} {
		for _, load := range []float64{0.3, 0.6, 0.9, 1.2} {
			if load > e.load {
				continue
			}
			for _, q := range []route.QueueConfig{{}, {Ahead: 500 * time.Millisecond, Patience: 5}} {
				for _, even := range []bool{true, false} {
					right, n := 0, 0
					for seed := range uint64(5) {
						rnd := rand.New(rand.NewPCG(seed, 1))
						s := emptyShop(t, q, e.engine)
						for i := range 200 {
							tokens := 4000
							if !even {
								tokens = int(500 * math.Exp(3*rnd.Float64()))
							}
							s.ask(fmt.Sprint(i), tokens)
							s.run(time.Duration(4000 * float64(e.engine.each) / load * rnd.ExpFloat64()))
							if i < 20 {
								continue
							}
							n++
							if s.r.InTurn("a") == e.inTurn {
								right++
							}
						}
						s.run(10 * time.Hour)
						if err := s.r.Idle(); err != nil {
							t.Fatal(err)
						}
					}
					if float64(right) < e.least*float64(n) {
						t.Errorf("%s, load %.1f, even %t, %v ahead: known for %d of %d prompts",
							name, load, even, q.Ahead, right, n)
					}
				}
			}
		}
	}
}

// TestBurstHidesNothing: prompts that arrive together delay each other where several are batched. The first has none in
// front but does not count as alone.
func TestBurstHidesNothing(t *testing.T) {
	for _, e := range []engine{inTurn, inSlots, latest} {
		s := emptyShop(t, aSecond, e)
		for i := range 2 {
			s.ask(fmt.Sprint("alone", i), 1000)
			s.run(time.Minute)
		}
		for i := range 3 {
			for j := range 4 {
				s.ask(fmt.Sprint("burst", i, j), 4000)
			}
			s.run(time.Minute)
			if !s.r.InTurn("a") {
				t.Errorf("%+v: not known after %d bursts", e, i+1)
			}
		}
		s.ask("a", 20_000)
		if d := s.ask("b", 4000); !d.Queued {
			t.Errorf("%+v: nobody stands in line", e)
		}
	}
}

// TestManyThatCome: a long prompt followed by more short ones than are remembered does not count as alone.
func TestManyThatCome(t *testing.T) {
	s := emptyShop(t, aSecond, inSlots)
	for i := range 2 {
		s.ask(fmt.Sprint("alone", i), 1000)
		s.run(time.Minute)
	}
	for i := range 4 {
		s.ask(fmt.Sprint("long", i), 8000)
		for j := range 100 {
			s.ask(fmt.Sprint("short", i, "-", j), 420)
			s.run(30 * time.Millisecond)
		}
		s.run(time.Minute)
	}
	if !s.r.InTurn("a") {
		t.Error("it is not known that prompts are computed in turn")
	}
}
