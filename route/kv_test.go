package route

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
)

// kvWorld is a router with two engines whose events are made by hand: blocks of 16 tokens, a token per 8 bytes of text.
type kvWorld struct {
	*testing.T
	model   string
	r       *Router
	now     time.Time
	streams map[string]*kvstream.Stream
	seq     map[string]uint64
	said    []string
}

func newKVWorld(t *testing.T) *kvWorld {
	w := &kvWorld{
		T: t, model: "m", r: New(Config{Policy: func() pick.Policy { return firstPolicy{} }}), now: kvNow,
		streams: map[string]*kvstream.Stream{}, seq: map[string]uint64{},
	}
	w.observe(Declared{Source: "s", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://a", Weight: 1, Models: []string{"m"}},
		{Name: "b", URL: "http://b", Weight: 1, Models: []string{"m"}},
	}})
	for _, name := range []string{"a", "b"} {
		w.observe(Probed{Endpoint: name, Report: fleet.Report{
			Healthy: true, Kind: fleet.KindVLLM, BlockTokens: 16, CacheTokens: 100_000,
		}})
		w.streams[name] = kvstream.New(0)
		w.observe(KVStreamState{Endpoint: name, State: kvstream.Exact, Detail: "followed"})
	}
	w.said = nil
	return w
}

func (w *kvWorld) observe(ev Event) {
	for _, c := range w.r.Observe(w.now, ev).Changes {
		w.said = append(w.said, c.Endpoint+": "+c.Detail)
	}
}

// tell publishes events of an endpoint's engine.
func (w *kvWorld) tell(name string, events ...kvstream.Event) {
	var ops kvstream.Ops
	s := w.streams[name]
	s.Apply(w.seq[name], &kvstream.Batch{At: float64(w.seq[name]), Events: events}, &ops)
	w.seq[name]++
	w.observe(KVApplied{Endpoint: name, Ops: &ops, Blocks: s.Len(), Size: 16})
}

// kvPrompt is tokens of the system prompt, then of the conversation.
func kvPrompt(system, own int, id uint32) (tokens []uint32, c *fleet.Content) {
	for i := range system {
		tokens = append(tokens, uint32(i)+1)
	}
	for i := range own {
		tokens = append(tokens, id*100_000+uint32(i))
	}
	c = &fleet.Content{Bytes: len(tokens) * 8}
	h := uint64(1)
	for i, x := range tokens {
		h = blocks.Scramble(h ^ uint64(x))
		if (i+1)%16 == 0 {
			c.Blocks = append(c.Blocks, h)
		}
	}
	return tokens, c
}

func (w *kvWorld) route(session, pin string, c *fleet.Content) Decision {
	w.Helper()
	d, err := w.r.Decide(w.now, &fleet.Request{
		Model: w.model, Session: session, Content: c, PromptBytes: c.Bytes, PromptTokens: 0, Pin: pin, Seed: 1,
	})
	if err != nil {
		w.Fatal(err)
	}
	return d.Decision
}

// cached is the prediction for a request that is then abandoned.
func (w *kvWorld) cached(session, pin string, c *fleet.Content) int {
	w.Helper()
	d := w.route(session, pin, c)
	w.observe(Finished{Lease: d.Lease, Outcome: fleet.Abandoned})
	return d.CachedTokens
}

// turn plays a request whose blocks from the given one on are stored at its endpoint.
func (w *kvWorld) turn(session, pin, label string, tokens []uint32, c *fleet.Content, cached int) Decision {
	w.Helper()
	d := w.route(session, pin, c)
	w.tell(pin, blocksOf(tokens, cached/16, label))
	w.observe(FirstByte{Lease: d.Lease})
	w.observe(Finished{Lease: d.Lease, Usage: fleet.Usage{
		PromptTokens: len(tokens), CachedTokens: cached, CachedKnown: true, OutputTokens: 1,
	}})
	w.now = w.now.Add(time.Second)
	return d
}

// kvHashOf is the engine's hash of a block: any function that covers the tokens.
func kvHashOf(tokens []uint32) uint64 {
	h := uint64(7)
	for _, x := range tokens {
		h = blocks.Scramble(h ^ uint64(x)<<1)
	}
	return h
}

// blocksOf is a stored event of a prompt's whole blocks from one on.
func blocksOf(tokens []uint32, from int, label string) kvstream.Event {
	e := kvstream.Event{
		Kind: kvstream.Stored, BlockTokens: 16, Session: label, Tokens: tokens[from*16 : len(tokens)/16*16],
	}
	for i := from; i < len(tokens)/16; i++ {
		e.Hashes = append(e.Hashes, kvHashOf(tokens[:i*16+16]))
	}
	if from > 0 {
		e.Parent, e.HasParent = kvHashOf(tokens[:from*16]), true
	}
	return e
}

func removedFrom(tokens []uint32, from int) kvstream.Event {
	e := kvstream.Event{Kind: kvstream.Removed}
	for i := len(tokens) / 16; i > from; i-- {
		e.Hashes = append(e.Hashes, kvHashOf(tokens[:i*16]))
	}
	return e
}

// TestKVEvents: events, token ids and the states of streams reach the cache, and what changed about them is told.
func TestKVEvents(t *testing.T) {
	w := newKVWorld(t)
	tokens, c := kvPrompt(0, 640, 1)
	_, next := kvPrompt(0, 800, 1)
	d, other := w.route("x", "a", c), w.route("y", "a", c) // so that several could have caused the blocks
	w.tell("a", blocksOf(tokens, 0, ""))
	w.observe(KVTokens{Lease: d.Lease, Tokens: tokens})
	w.observe(Finished{Lease: other.Lease, Outcome: fleet.Abandoned})
	w.observe(Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 640, CachedKnown: true, OutputTokens: 1}})
	w.now = w.now.Add(2 * reported.Overdue)
	w.tell("a", removedFrom(tokens, 10))
	if got := w.cached("x", "a", next); got != 160 || len(w.said) != 0 {
		t.Errorf("after an eviction: %d cached, want 160; told %q", got, w.said)
	}
	_, c2 := kvPrompt(0, 900, 2)
	d = w.route("y", "a", c2) // its blocks must be stored, but no event arrives
	w.observe(Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 900, CachedKnown: true}})
	w.observe(KVTick{})
	w.now = w.now.Add(reported.Overdue)
	w.observe(KVTick{})
	if s := w.r.Status(w.now)[0].KV.State; s != kvstream.Silent || len(w.said) != 1 ||
		!strings.Contains(w.said[0], "silent") {
		t.Errorf("%s: %q", s, w.said)
	}
	w.tell("a", blocksOf(tokens, 0, "x"))
	w.observe(KVStreamState{Endpoint: "a", State: kvstream.Exact, Detail: "followed again", Restart: true})
	if got := w.cached("x", "a", next); got != 0 || len(w.said) != 3 || // changes by events are told at the next end
		!strings.Contains(w.said[1], "followed again") || !strings.Contains(w.said[2], "heard again") {
		t.Errorf("after a restart: %d cached, told %q", got, w.said)
	}
}

// TestKVSecondTier: where events say that an engine keeps blocks in a second tier, they are cached as long as any tier
// has them, and what only that tier can have costs its fetch, as long as that was measured to take.
func TestKVSecondTier(t *testing.T) {
	w := newKVWorld(t)
	turn := func(i int, tokens []uint32, c *fleet.Content, cached int, took time.Duration) Decision {
		d, err := w.r.Decide(w.now, &fleet.Request{
			Model: "m", Session: fmt.Sprint(i), Content: c, PromptBytes: c.Bytes, Pin: "a", Stream: true, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(took)
		own, other := blocksOf(tokens, 0, fmt.Sprint(i)), blocksOf(tokens, cached/16, fmt.Sprint(i))
		own.Medium, other.Medium = "GPU", "CPU"
		if took > 100*time.Millisecond { // otherwise nothing has left its own memory
			w.tell("a", own, other)
		}
		w.observe(FirstByte{Lease: d.Lease})
		w.observe(Finished{Lease: d.Lease, Usage: fleet.Usage{
			PromptTokens: len(tokens), CachedTokens: cached, CachedKnown: true, OutputTokens: 2,
		}})
		w.now = w.now.Add(time.Second)
		return d.Decision
	}
	w.observe(Probed{
		Endpoint: "a", Report: fleet.Report{Healthy: true, Kind: fleet.KindVLLM, BlockTokens: 16, CacheTokens: 10_000},
	})
	const sessions, size = 8, 2000 // the engine's own memory has room for five
	var last, again Decision
	for round := range 8 {
		for i := range sessions {
			tokens, c := kvPrompt(0, size+64*round, uint32(i+1))
			if round == 0 {
				turn(i, tokens, c, 0, 2*time.Second)
				continue
			}
			before := size + 64*(round-1)
			w.tell("a", removedGPU(tokens[:before]))
			last = turn(i, tokens, c, before/16*16, time.Second)
			next, c := kvPrompt(0, size+64*round, uint32(i+1))
			again = turn(i, next, c, len(next)/16*16-16, 20*time.Millisecond)
			if round > 1 && (last.CachedTokens < size || again.CachedTokens < size) {
				t.Fatalf("%d and %d tokens are predicted of %d", last.CachedTokens, again.CachedTokens, len(tokens))
			}
		}
	}
	if last.TTFTMs < 700 || last.TTFTMs > 1400 {
		t.Errorf("a prompt in the second tier is to take %.0f ms, took 1000", last.TTFTMs)
	}
	if again.TTFTMs > 200 {
		t.Errorf("a prompt in the engine's own memory is to take %.0f ms, took 20", again.TTFTMs)
	}

	// Another router counts the same work, fetching included: a tenant's use is the same everywhere.
	config := Config{Policy: func() pick.Policy { return firstPolicy{} }, Replicas: true}
	w.observe(Configured{Config: config})
	other := newKVWorld(t)
	other.observe(Configured{Config: config})
	tokens, c := kvPrompt(0, size+64*7, 1)
	w.tell("a", removedGPU(tokens))
	d, err := w.r.Decide(w.now, &fleet.Request{
		Model: "m", Session: "0", Content: c, PromptBytes: c.Bytes, Pin: "a", Stream: true, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if d.News[0].Placed.FetchTokens == 0 {
		t.Error("fetching from the second tier is no work")
	}
	other.observe(PeerNews{Peer: 2, At: other.now, News: &d.News[0]})
	here, there := w.r.Status(w.now)[0].Load.PrefillTokens, other.r.Status(other.now)[0].Load.PrefillTokens
	if here != there {
		t.Errorf("%d tokens of work at the router that placed it, %d at another", here, there)
	}
}

// removedGPU says that an engine's own memory has let go of a prompt.
func removedGPU(tokens []uint32) kvstream.Event {
	e := removedFrom(tokens, 0)
	e.Medium = "GPU"
	return e
}
