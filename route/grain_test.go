package route_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// unitEngine is an engine that finds prompts again in whole units of tokens.
type unitEngine struct {
	unit   int
	scale  float64 // its tokens per token of the router's estimate
	held   [][]uint64
	talks  [4][]uint64 // conversations: pieces of 320 tokens of estimate
	pieces uint64
}

// turn adds some pieces to a conversation, and is its prompt and what is found of it.
func (e *unitEngine) turn(talk, more int) (req fleet.Request, found int) {
	for range more {
		e.pieces++
		e.talks[talk] = append(e.talks[talk], e.pieces)
	}
	prompt := e.talks[talk]
	req = prompted("a", prompt...)
	req.Session = fmt.Sprint(talk)
	n := 0
	for _, h := range e.held {
		k := 0
		for k < min(len(h), len(prompt)) && h[k] == prompt[k] {
			k++
		}
		n = max(n, k)
	}
	e.held = append(e.held, append([]uint64(nil), prompt...))
	found = min(int(float64(n*320)*e.scale), e.tokens(&req)-1)
	return req, found - found%e.unit
}

func (e *unitEngine) tokens(req *fleet.Request) int { return int(float64(req.PromptBytes/4) * e.scale) }

// TestUnitsArePredicted: what an engine that finds prompts in units of many tokens is predicted to have is whole units
// after some turns, whatever block it states and however the estimate of tokens errs.
func TestUnitsArePredicted(t *testing.T) {
	for _, unit := range []int{1, 16, 528, 1056, 2144} {
		for _, stated := range []int{0, 16, unit} {
			for _, scale := range []float64{0.97, 1, 1.04} {
				t.Run(fmt.Sprintf("unit %d, stated %d, scale %v", unit, stated, scale), func(t *testing.T) {
					for seed := range uint64(20) {
						playUnits(t, rand.New(rand.NewPCG(seed, 1)), unit, stated, scale)
					}
				})
			}
		}
	}
}

func playUnits(t *testing.T, rng *rand.Rand, unit, stated int, scale float64) {
	x, e := newReviewed(t, nil, "a", "b"), &unitEngine{unit: unit, scale: scale}
	x.r.Observe(x.now, route.Probed{
		Endpoint: "a", Report: fleet.Report{Healthy: true, CacheTokens: 10_000_000, BlockTokens: stated},
	})
	for i := range 60 {
		req, found := e.turn(rng.IntN(len(e.talks)), 1+rng.IntN(3))
		d := x.serveOf(req, e.tokens(&req), found)
		if i > 40 && unit > 500 && d.CachedTokens%unit != 0 {
			t.Errorf("turn %d: %d predicted, which are not whole units", i, d.CachedTokens)
		}
	}
}

// serveOf is serve with the engine's count of the prompt's tokens.
func (x *reviewed) serveOf(req fleet.Request, tokens, found int) route.Decision {
	x.t.Helper()
	d := x.route(req)
	x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
	u := fleet.Usage{PromptTokens: tokens, OutputTokens: 1, CachedTokens: found, CachedKnown: true}
	x.r.Observe(x.now, route.Finished{Lease: d.Lease, Usage: u})
	return d
}
