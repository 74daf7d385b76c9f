package route_test

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// chained is the content of a prompt of pieces of 1,280 bytes, ten blocks each, given by numbers. Equal leading numbers
// give equal leading blocks.
func chained(pieces ...uint64) *fleet.Content {
	c := &fleet.Content{Bytes: 1280 * len(pieces)}
	h := uint64(7)
	for _, p := range pieces {
		for i := range uint64(10) {
			h = (h ^ (p<<8 + i)) * 0x9e3779b97f4a7c15
			h ^= h >> 29
			c.Blocks = append(c.Blocks, h)
		}
	}
	return c
}

// prompt is a streamed request with that content, at 4 bytes a token.
func prompted(pin string, pieces ...uint64) fleet.Request {
	c := chained(pieces...)
	return fleet.Request{Model: "m", Content: c, PromptBytes: c.Bytes, Pin: pin, Stream: true, MintedID: "x"}
}

// TestAnchor: the engine's count for the last turn is exact; only the new part is estimated.
func TestAnchor(t *testing.T) {
	x := newTestRouter(t, nil, "a", "b")
	first := prompted("a", 1, 2)
	first.Session = "s"
	d := x.route(first)
	x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
	x.r.Observe(x.now, route.Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 100}})
	second := prompted("a", 1, 2, 3)
	second.Session = "s"
	d = x.route(second)
	if d.PromptTokens < 1320 || d.PromptTokens > 1500 { // 1,000 for the first two thirds; the ratio has moved too
		t.Errorf("%d tokens estimated for a turn that adds 1,280 bytes to 1,000 tokens", d.PromptTokens)
	}
	if d.CachedTokens != 1100 {
		t.Errorf("%d cached tokens predicted, want 1100: the prompt and the answer of the last turn", d.CachedTokens)
	}
}

// TestDeclaredAgain: an endpoint that left and is declared again counts as another engine, also for conversations with
// an id.
func TestDeclaredAgain(t *testing.T) {
	x := newTestRouter(t, nil, "a")
	req := fleet.Request{Model: "m", Session: "s", PromptTokens: 2000}
	turn := func() route.Decision {
		t.Helper()
		d := x.route(req)
		x.r.Observe(x.now, route.Finished{
			Lease: d.Lease, Outcome: fleet.OK, Usage: fleet.Usage{PromptTokens: 2000, OutputTokens: 10},
		})
		return d
	}
	turn()
	if d := turn(); d.CachedTokens == 0 {
		t.Fatal("what the conversation's home holds was not seen")
	}
	for range 2 {
		x.declare(nil, "")
		x.declare([]string{"a"}, "")
		x.up("a", nil, fleet.Model{ID: "m"})
		if d := turn(); d.CachedTokens != 0 {
			t.Errorf("the one that came holds %d tokens", d.CachedTokens)
		}
		if d := turn(); d.CachedTokens == 0 {
			t.Error("what it computed was not seen")
		}
	}
}
