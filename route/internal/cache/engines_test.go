package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// engines is a table with some engines in front of it, which conversations remember. Texts have a token for 8 bytes, so
// that a block has 16 tokens, as those of the engines; estimates of tokens are exact.
type engines struct {
	*testing.T
	*Table
	now     time.Time
	size    size.Model
	answers AnswerReuse
	models  []string // that the engines serve
	facts   []Facts
	streams []*kvstream.Stream // of events
	seq     []uint64
	homes   map[string]session.Entry // by conversation
	open    map[uint32]opened
	next    uint32
	news    []string
	scale   float64 // the engines' tokens for one of the estimate
}

// opened is a placed request.
type opened struct {
	slot   int
	chat   string // key of its conversation
	tokens int
}

func newEngines(t *testing.T, n int, f Facts) *engines {
	e := &engines{
		T: t, Table: New(0), now: time.Unix(1_700_000_000, 0), size: size.NewModel(),
		homes: map[string]session.Entry{}, open: map[uint32]opened{}, scale: 1,
	}
	e.size.Restore(&learnt.Size{TokensPerByte: 1. / 8, Counted: 1, Output: 1})
	for slot := range n {
		e.AddEndpoint(slot)
		e.Describe(slot, f)
		e.models, e.facts = append(e.models, "m"), append(e.facts, f)
		e.streams, e.seq = append(e.streams, kvstream.New(0)), append(e.seq, 0)
	}
	return e
}

// newFollowed is two engines whose events are followed.
func newFollowed(t *testing.T) *engines {
	e := newEngines(t, 2, Facts{CacheTokens: 100_000, BlockTokens: 16})
	for slot := range 2 {
		e.Events.SetStreamState(slot, kvstream.Exact)
	}
	return e
}

// words are so many tokens that no other text has.
func words(text, n int) (tokens []uint32) {
	for i := range n {
		tokens = append(tokens, uint32(text)<<16+uint32(i))
	}
	return tokens
}

// said is a request for a prompt of these tokens.
func said(tokens ...[]uint32) *fleet.Request {
	c, name := fleet.Content{}, uint64(1)
	for i, x := range slices.Concat(tokens...) {
		name = blocks.Scramble(name ^ uint64(x))
		if c.Bytes += 8; i%16 == 15 {
			c.Blocks = append(c.Blocks, name)
		}
	}
	return &fleet.Request{Content: &c, PromptBytes: c.Bytes}
}

// key names a request's conversation; "" for none.
func key(chat string, req *fleet.Request) string {
	if chat == "" {
		return ""
	}
	return req.Tenant + "/" + chat
}

// predict is what is predicted of a request at each engine.
func (e *engines) predict(x *Lookups, chat string, req *fleet.Request) (*pick.View, *Prompt) {
	home := e.homes[key(chat, req)]
	p := &Prompt{
		Request: req, Now: e.now, Size: e.size.Prompt(req, size.Last{Bytes: home.Bytes, Tokens: home.Prompt}),
		TokensPerByte: 1. / 8, Session: chat, Known: home.Endpoint != "", Entry: home, AnswerReuse: e.answers,
	}
	p.Repeats = p.Known && home.Bytes == req.PromptBytes
	v := &pick.View{Now: e.now, PromptTokens: p.Size.Tokens, Home: -1}
	for slot, model := range e.models {
		c := pick.Candidate{Endpoint: pick.Endpoint{
			Name: string(rune('a' + slot)), Slot: slot, Model: model, Epoch: e.Epoch(slot),
			BlockTokens: e.facts[slot].BlockTokens, CacheTokens: e.facts[slot].CacheTokens,
		}}
		if c.Name == home.Endpoint {
			v.Home = slot
		}
		v.Candidates = append(v.Candidates, c)
	}
	cached, _, missed := e.Predict(x, p, pick.EndpointsOf(v.Candidates), v.Home, e.Begin(x), nil)
	for i := range cached {
		v.Candidates[i].Cached = cached[i]
	}
	e.Note(x, missed)
	return v, p
}

// place opens a lease, and returns how many tokens are predicted to be cached.
func (e *engines) place(slot int, chat string, req *fleet.Request) (n uint32, cached int) {
	var x Lookups
	v, p := e.predict(&x, chat, req)
	n, e.next = e.next, e.next+1
	e.Open(n, v, slot, &x, p)
	e.open[n] = opened{slot, key(chat, req), int(float64(p.Size.Tokens) * e.scale)}
	if chat != "" && e.homes[key(chat, req)].Endpoint == "" {
		e.homes[key(chat, req)] = session.Entry{Endpoint: v.Candidates[slot].Name, Epoch: v.Candidates[slot].Epoch}
	}
	return n, v.Candidates[slot].CachedTokens
}

// end ends a lease: with OK its prompt is computed, of which so many tokens were found; below 0 they are not told.
func (e *engines) end(n uint32, o fleet.Outcome, found, answer int) {
	l := e.open[n]
	u := fleet.Usage{PromptTokens: l.tokens, CachedTokens: max(0, found), CachedKnown: found >= 0, OutputTokens: answer}
	if delete(e.open, n); o != fleet.OK {
		u = fleet.Usage{}
	}
	e.news = append(e.news, e.Close(e.now, &Ended{
		Lease: fleet.Lease(n), Outcome: o, Usage: &u, Sent: true, Splits: true, AnswerReuse: &e.answers,
	})...)
	if o == fleet.OK && l.chat != "" {
		w := e.Warmth(n)
		e.homes[l.chat] = session.Entry{
			Endpoint: string(rune('a' + l.slot)), Epoch: w.Epoch, Flow: w.Flow, Bytes: w.Bytes, Marks: w.Marks,
			Prompt: l.tokens, Tokens: l.tokens + answer,
		}
	}
	e.now = e.now.Add(time.Second)
}

// cached is how many tokens are predicted for a request, which is then abandoned.
func (e *engines) cached(slot int, chat string, req *fleet.Request) int {
	n, cached := e.place(slot, chat, req)
	e.end(n, fleet.Abandoned, -1, 0)
	return cached
}

// serve has a request computed, and returns how many tokens were predicted.
func (e *engines) serve(slot int, chat string, req *fleet.Request, found, answer int) int {
	n, cached := e.place(slot, chat, req)
	e.Computed(e.now, n)
	e.end(n, fleet.OK, found, answer)
	return cached
}

// want compares what is predicted of a request.
func (e *engines) want(what string, slot int, chat string, req *fleet.Request, want int) {
	e.Helper()
	if got := e.cached(slot, chat, req); got != want {
		e.Errorf("%s: %d tokens are predicted to be cached, want %d", what, got, want)
	}
}

// tell publishes events of an engine.
func (e *engines) tell(slot int, events ...kvstream.Event) { e.tellAsked(slot, time.Time{}, events...) }

// tellAsked publishes events that the engine was asked for at a time.
func (e *engines) tellAsked(slot int, asked time.Time, events ...kvstream.Event) {
	var ops kvstream.Ops
	e.streams[slot].Apply(e.seq[slot], &kvstream.Batch{At: float64(e.seq[slot]), Events: events}, &ops)
	e.seq[slot]++
	requests := 0
	for _, l := range e.open {
		if l.slot == slot {
			requests++
		}
	}
	size := 16
	for _, ev := range events {
		if ev.BlockTokens > 0 {
			size = ev.BlockTokens
		}
	}
	e.news = append(e.news, e.Apply(
		e.now, slot, requests, &reported.Batch{Ops: &ops, Blocks: e.streams[slot].Len(), Size: size}, asked,
	)...)
}

// hashOf is an engine's hash of a block: any function that covers the tokens.
func hashOf(tokens []uint32) (h uint64) {
	for _, x := range tokens {
		h = blocks.Scramble(h ^ uint64(x)<<1)
	}
	return h
}

// storedFrom is the event of a prompt's whole blocks, of so many tokens, from one on.
func storedFrom(tokens []uint32, size, from int, label string) kvstream.Event {
	ev := kvstream.Event{
		Kind: kvstream.Stored, BlockTokens: size, Session: label, Tokens: tokens[from*size : len(tokens)/size*size],
	}
	for i := from; i < len(tokens)/size; i++ {
		ev.Hashes = append(ev.Hashes, hashOf(tokens[:i*size+size]))
	}
	if from > 0 {
		ev.Parent, ev.HasParent = hashOf(tokens[:from*size]), true
	}
	return ev
}

// removedFrom is the event that an engine evicts a prompt's blocks from one on.
func removedFrom(tokens []uint32, from int) kvstream.Event {
	ev := kvstream.Event{Kind: kvstream.Removed}
	for i := len(tokens) / 16; i > from; i-- {
		ev.Hashes = append(ev.Hashes, hashOf(tokens[:i*16]))
	}
	return ev
}

// told is a request that is computed at an engine whose events say so, under a label.
func (e *engines) told(slot int, chat, label string, tokens []uint32, cached int) {
	n, _ := e.place(slot, chat, said(tokens))
	e.tell(slot, storedFrom(tokens, 16, cached/16, label))
	e.Computed(e.now, n)
	e.end(n, fleet.OK, cached, 1)
}
