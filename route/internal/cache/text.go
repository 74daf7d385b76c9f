package cache

import (
	"slices"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/session"
)

// Prompt is a request with what other rooms know of it.
type Prompt struct {
	Request       *fleet.Request
	Size          size.Prompt
	TokensPerByte float64 // mean of the model's prompts
	Session       string  // conversation id, "" for none
	Known         bool    // Entry is valid
	Entry         session.Entry
	Repeats       bool    // it equals its conversation's previous prompt
	Answers       Answers // of the model
	CountsActive  bool    // a policy asks for ActiveTokens and AddsTokens
}

// Text is the scratch memory of one decision: the prompt's block names and which endpoints hold them. It is reused.
type Text struct {
	keys    []uint64 // the prompt's kept blocks for model
	model   string
	matches prefix.Matches
	known   bool // keys and matches are valid
	chain   reported.Chain
	missed  fit.Mean // Table.missed, updated by this decision's views
	present bool     // see OnlyPresent
	ready   bool     // see Held: the next view finds all looked up
	held    []int32  // by slot, see Held
}

// Begin resets x for a decision.
func (r Reader) Begin(x *Text) {
	x.known, x.present, x.ready, x.missed = false, false, false, r.t.missed
	x.chain.Reset()
}

// look finds the endpoints that hold blocks of the prompt for a model.
func (r Reader) look(x *Text, req *fleet.Request, model string) {
	x.keys = blocks.Keys(x.keys, blocks.Scope(model, req.Tenant, req.Content), req.Content)
	x.model = model
	r.t.index.Match(x.keys, &x.matches)
}

// Held returns the tokens of a prompt that each slot is believed to hold, before there are rows. All endpoints serve the request by
// one model name, and the next view is for it.
func (r Reader) Held(x *Text, p *Prompt, model string) []int32 {
	x.held = x.held[:0]
	req := p.Request
	if req.Content == nil || len(req.Content.List) > 0 || len(req.Content.Blocks) == 0 || p.Size.Tokens == 0 {
		return x.held
	}
	r.look(x, req, model)
	r.t.reported.Reader().Find(&x.chain, req.Tenant, p.Session, req.Tokens, x.keys, &x.matches)
	x.ready = true
	n := r.t.endpoints.Len()
	x.held = slices.Grow(x.held, n)[:n]
	clear(x.held)
	last, tokens := 0, 0
	for slot, depth := range x.matches.All() {
		if depth != last {
			last, tokens = depth, p.Size.At(blocks.Bytes(depth))
		}
		x.held[slot] = int32(tokens)
	}
	if x.chain.Known {
		for slot := range x.held {
			if tokens, ok := r.t.reported.Reader().Tokens(slot, &x.chain, p.Size.Tokens); ok {
				x.held[slot] = max(x.held[slot], int32(tokens))
			}
		}
	}
	return x.held
}

// Note stores a decision's findings, before Open or without it.
func (t *Table) Note(x *Text) {
	t.missed = x.missed
	t.reported.Touch(&x.chain)
}

// wholeBlocks rounds down to whole blocks of an endpoint's engine, or to the unit in which it finds prompts again.
func (r Reader) wholeBlocks(c *pick.Candidate, tokens int) int {
	if n := r.t.endpoints.Get(c.Slot).grain.block(c.BlockTokens); n > 1 {
		return tokens - tokens%n
	}
	return tokens
}
