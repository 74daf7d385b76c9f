package route_test

import (
	"fmt"
	"testing"
	"time"

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

// serve routes a request and answers it at once; found is the engine's report of cached tokens, -1 for none.
func (x *reviewed) serve(req fleet.Request, found int) (route.Decision, route.Entry) {
	x.t.Helper()
	d := x.route(req)
	x.now = x.now.Add(50 * time.Millisecond)
	x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
	u := fleet.Usage{
		PromptTokens: req.PromptBytes / 4, OutputTokens: 1, CachedTokens: max(found, 0), CachedKnown: found >= 0,
	}
	return d, x.r.Observe(x.now, route.Finished{Lease: d.Lease, Usage: u})
}

// TestBelief: what was sent to an endpoint is predicted to be cached there, for the common prefix in the same scope
// only.
func TestBelief(t *testing.T) {
	x := newReviewed(t, nil, "a", "b")
	if d, _ := x.serve(prompted("a", 1, 2), -1); d.CachedTokens != 0 {
		t.Errorf("a first prompt: %d cached", d.CachedTokens)
	}
	other := prompted("a", 1, 2)
	other.Content.Scope = 5
	tenant := prompted("a", 1, 2)
	tenant.Tenant = "t"
	lead := prompted("a", 1, 2, 3)
	lead.Content.Lead, lead.PromptBytes = 1280, lead.PromptBytes+1280
	for name, c := range map[string]struct {
		req  fleet.Request
		want int
	}{
		"goes on":          {prompted("a", 1, 2, 3), 640},
		"the same":         {prompted("a", 1, 2), 639}, // one token is always computed
		"half of it":       {prompted("a", 1, 9), 320},
		"nothing of it":    {prompted("a", 9, 2), 0},
		"elsewhere":        {prompted("b", 1, 2, 3), 0},
		"another scope":    {other, 0},
		"another tenant":   {tenant, 0},
		"tools in front":   {lead, 960},
		"without a chain":  {fleet.Request{Model: "m", PromptBytes: 5000, Pin: "a"}, 0},
		"an empty content": {fleet.Request{Model: "m", PromptBytes: 5000, Pin: "a", Content: &fleet.Content{}}, 0},
	} {
		d := x.route(c.req)
		if d.CachedTokens != c.want {
			t.Errorf("%s: %d cached tokens predicted, want %d", name, d.CachedTokens, c.want)
		}
		x.end(d, fleet.ConnectFailed) // what was not computed is not predicted to be cached
		x.up("a", nil, fleet.Model{ID: "m"})
		x.up("b", nil, fleet.Model{ID: "m"})
	}
}

// TestBeliefIsTakenBack: a request that fails before prefill leaves nothing cached.
func TestBeliefIsTakenBack(t *testing.T) {
	for _, o := range []fleet.Outcome{
		fleet.EngineError, fleet.ConnectFailed, fleet.ClientGone, fleet.Busy, fleet.TimedOut, fleet.Abandoned,
	} {
		x := newReviewed(t, nil, "a", "b")
		x.serve(prompted("a", 1), -1)
		x.end(x.route(prompted("a", 1, 2, 3)), o)
		if d := x.route(prompted("a", 1, 2, 3)); d.CachedTokens != 320 {
			t.Errorf("%v: %d cached tokens predicted, want those of the first request, 320", o, d.CachedTokens)
		}
	}
}

// TestBeliefIsBounded: belief is bounded by the reported capacity, and shows where the cache ends.
func TestBeliefIsBounded(t *testing.T) {
	x := newReviewed(t, nil, "a", "b")
	x.r.Observe(x.now, route.Probed{
		Endpoint: "a", Report: fleet.Report{Healthy: true, CacheTokens: 3200, BlockTokens: 16},
	})
	for i := range uint64(10) { // 320 tokens each
		x.serve(prompted("a", 100+i), -1)
	}
	for _, c := range []struct {
		prompt uint64
		want   int
	}{{9, 304}, {1, 304}, {0, 160}} { // 95 % of 3,200 tokens are nine and a half of them; one token is always computed
		d := x.route(prompted("a", 100+c.prompt))
		if d.CachedTokens != c.want {
			t.Errorf("prompt %d: %d cached tokens predicted, want %d", c.prompt, d.CachedTokens, c.want)
		}
		x.end(d, fleet.Abandoned)
	}
}

// TestAnswersThatDoNotComeBack: parts that a client omits from its next prompt, such as reasoning, are not found there,
// which says nothing about the cache's capacity.
func TestAnswersThatDoNotComeBack(t *testing.T) {
	x := newReviewed(t, nil, "a", "b")
	x.r.Observe(x.now, route.Probed{
		Endpoint: "a", Report: fleet.Report{Healthy: true, CacheTokens: 12_800, BlockTokens: 16},
	})
	turn := func(id uint64, found int, pieces ...uint64) {
		req := prompted("a", pieces...)
		req.Session = fmt.Sprint(id)
		d := x.route(req)
		x.now = x.now.Add(50 * time.Millisecond)
		x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
		u := fleet.Usage{PromptTokens: req.PromptBytes / 4, OutputTokens: 300, CachedTokens: found, CachedKnown: true}
		x.r.Observe(x.now, route.Finished{Lease: d.Lease, Usage: u})
	}
	const rounds, fit = 200, 15 // of 640 tokens each; 19 of them fit
	for i := range uint64(rounds) {
		turn(i, 0, 1000+i)
		turn(i, 320, 1000+i, 5000+i)
	}
	if d := x.route(prompted("a", 1000+rounds-fit, 5000+rounds-fit, 1)); d.CachedTokens != 640 {
		t.Errorf("%d cached tokens predicted, want 640: %d conversations fit", d.CachedTokens, fit)
	}
}

// TestAnchor: the engine's count for the last turn is exact; only the new part is estimated.
func TestAnchor(t *testing.T) {
	x := newReviewed(t, nil, "a", "b")
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
	x := newReviewed(t, nil, "a")
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
