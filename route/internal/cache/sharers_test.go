package cache

import (
	"math"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/size"
)

// TestSharersOfMany: of thousands of requests few are looked at, and stand for all.
func TestSharersOfMany(t *testing.T) {
	const requests, shared = 5000, 20
	b := newBeliever()
	start := b.now
	model := size.NewModel()
	ask := func(w text) (x *Lookups, p *Prompt, v *pick.View, held []pick.Cached) {
		req := &fleet.Request{Content: new(fleet.Content), PromptBytes: len(w) * fleet.BlockBytes}
		*req.Content = w.content()
		x = new(Lookups)
		p = &Prompt{Request: req, Now: b.now, Size: model.Prompt(req, size.Last{}), TokensPerByte: 0.25}
		v = &pick.View{PromptTokens: p.Size.Tokens, FirstTurn: true, Candidates: []pick.Candidate{
			{Endpoint: pick.Endpoint{Slot: 0, Epoch: b.t.Epoch(0)}},
			{Endpoint: pick.Endpoint{Slot: 1, Epoch: b.t.Epoch(1)}},
		}}
		held, _, _ = b.t.Predict(x, p, pick.EndpointsOf(v.Candidates), -1, b.t.Begin(x), nil)
		for i := range held {
			v.Candidates[i].Cached = held[i]
		}
		return x, p, v, held
	}
	for i := range requests {
		b.now = start.Add(time.Duration(i) * time.Millisecond)
		w := make(text, shared+1)
		if w[shared] = i + 1; i%2 == 1 {
			w[0] = 1 // half of them begin otherwise, at the other endpoint
		}
		x, p, v, _ := ask(w)
		b.t.Open(uint32(i), v, i%2, x, p)
	}
	b.now = start.Add(requests * time.Millisecond)
	x, p, v, held := ask(make(text, shared+1))
	got := b.t.Sharers(x, p, pick.EndpointsOf(v.Candidates), held)
	if math.Abs(got.Turns-requests/2) > 1e-6 {
		t.Errorf("%v of them, want %d", got.Turns, requests/2)
	}
	if got.OldestMs >= requests { // the first one is not among those at even distances
		t.Error("all of them were looked at")
	}
	if math.Abs(got.OldestMs-requests) > requests/4 {
		t.Errorf("the first was placed %v ms ago, want about %d", got.OldestMs, requests)
	}
	if n := testing.AllocsPerRun(20, func() {
		got = b.t.Sharers(x, p, pick.EndpointsOf(v.Candidates), held)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
