package cache

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/route/cache/reported"
	"github.com/warmpath/warmpath/route/size"
	"github.com/warmpath/warmpath/session"
)

// Prompt is a request and what is known of it, as values.
type Prompt struct {
	Request       *fleet.Request
	Size          size.Prompt
	TokensPerByte float64 // of prompts of the model, on average
	Session       string  // id of its conversation, "" for none
	Known         bool    // Entry is known:
	Entry         session.Entry
	Repeats       bool    // it is its conversation's latest prompt, word for word
	Answers       Answers // of the model
	CountsActive  bool    // a policy asks for ActiveTokens and AddsTokens
}

// Text is the memory of one decision: the names of the prompt's blocks, and who holds how many of them. Used again it allocates nothing.
type Text struct {
	keys    []uint64 // the prompt's kept blocks, as asked of a model
	model   string   // that model
	matches prefix.Matches
	known   bool // rows have been looked up by these
	chain   reported.Chain
	missed  float64 // Table.missed, with what this decision's views have added
	present bool    // see OnlyPresent
}

// Begin begins a decision.
func (r Reader) Begin(x *Text) {
	x.known, x.present, x.missed = false, false, r.t.missed
	x.chain.Reset()
}

// look finds what is believed to be where of the prompt, as asked of a model.
func (r Reader) look(x *Text, req *fleet.Request, model string) {
	x.keys = blocks.Keys(x.keys, blocks.Scope(model, req.Tenant, req.Content), req.Content)
	x.model = model
	r.t.index.Match(x.keys, &x.matches)
}

// Note keeps what a decision found out. It comes before Open, and after a decision that placed nothing.
func (t *Table) Note(x *Text) {
	t.missed = x.missed
	t.reported.Touch(&x.chain)
}

// wholeBlocks rounds down to the blocks in which an endpoint's engine caches.
func wholeBlocks(c *pick.Candidate, tokens int) int {
	if n := c.BlockTokens; n > 1 {
		return tokens - tokens%n
	}
	return tokens
}
