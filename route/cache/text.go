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
	missed  float64 // Table.missed, updated by this decision's views
	present bool    // see OnlyPresent
}

// Begin resets x for a decision.
func (r Reader) Begin(x *Text) {
	x.known, x.present, x.missed = false, false, r.t.missed
	x.chain.Reset()
}

// look finds the endpoints that hold blocks of the prompt for a model.
func (r Reader) look(x *Text, req *fleet.Request, model string) {
	x.keys = blocks.Keys(x.keys, blocks.Scope(model, req.Tenant, req.Content), req.Content)
	x.model = model
	r.t.index.Match(x.keys, &x.matches)
}

// Note stores a decision's findings, before Open or without it.
func (t *Table) Note(x *Text) {
	t.missed = x.missed
	t.reported.Touch(&x.chain)
}

// wholeBlocks rounds down to whole blocks of an endpoint's engine.
func wholeBlocks(c *pick.Candidate, tokens int) int {
	if n := c.BlockTokens; n > 1 {
		return tokens - tokens%n
	}
	return tokens
}
