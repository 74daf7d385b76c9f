// Package miss says why a prompt was not found in the cache of the endpoint that got it, and how much of it could have
// been found there.
//
// It owns one table, of fixed size: which tenant sent which beginning of prompts last, and for which model. In come a
// turn that was just placed, with what the other rooms know of it, and later what its engine counted; out comes a Miss,
// in tokens of the prompt and bytes as the router writes prompts down. Nothing is decided by it: it is for those who
// ask why.
package miss

import (
	"slices"
	"sort"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/session"
)

// Cause is why a prompt was not found in the cache of the endpoint that got it.
type Cause string

// The causes. None says anything about a prompt whose content was not read, but for a conversation's home.
const (
	None      Cause = ""
	New       Cause = "never_there"    // nobody has sent a prompt that begins so
	Evicted   Cause = "evicted"        // it was there, and made room for others
	Restarted Cause = "restarted"      // the engine has lost its cache since
	Prefix    Cause = "another_prefix" // it differs from the conversation's last prompt
	Tenant    Cause = "another_tenant" // its beginning was sent by another tenant, whose cache is kept apart
	Adapter   Cause = "another_model"  // it was computed with another model or adapter
	Elsewhere Cause = "elsewhere"      // the conversation, or its beginning, is at another endpoint
	Unclear   Cause = "unclear"        // the last prompt was at another router, or before a restart of this one
)

// Miss is what was missed, and why. It is as of the decision, and corrected by the cached tokens that the engine
// reported. It has no text.
type Miss struct {
	Cause  Cause
	Tokens int // that could have been found, and were not
	Work   int // with Evicted: tokens of prompts that the endpoint has computed since; 0 unknown
	// with Prefix: bytes of the prompt that both have, and those by the end of which they differ, as the router writes
	// prompts down
	From, To int
	Messages [2]int // the messages, from 1, in which these lie; 0 unknown
	Unseen   bool   // the router had expected to find it
}

// Table remembers who sent which beginnings of prompts last: of two with the same place the later one counts. The zero
// value is ready to use.
type Table struct{ at []beginning }

type beginning struct{ name, tenant, model uint64 }

const beginningBlocks = 8 // 1 kB

// beginningOf is the beginning of a request's prompt; its name is 0 for one that is too short.
func beginningOf(req *fleet.Request, model string) (b beginning) {
	c := req.Content
	if c == nil || len(c.Blocks) < beginningBlocks || len(c.List) > 0 {
		return b
	}
	b.name = blocks.Scramble(c.Blocks[beginningBlocks-1] ^ blocks.Scramble(c.Scope))
	b.tenant, b.model = blocks.Hash(req.Tenant, ""), blocks.Hash("", model)
	return b
}

// note stores a beginning and returns the one that had its name; zero for none.
func (t *Table) note(now beginning) (was beginning) {
	if now.name == 0 {
		return was
	}
	if t.at == nil {
		t.at = make([]beginning, bound.Many)
	}
	at := &t.at[now.name%bound.Many]
	if at.name == now.name {
		was = *at
	}
	*at = now
	return was
}

// Placed is a request that was placed, with what the rooms know of it.
type Placed struct {
	Request *fleet.Request
	Size    size.Prompt
	View    *pick.View
	Chosen  *pick.Candidate // of View

	Last    *session.Entry   // the conversation's last turn; nil if its prompt is not known
	Differs cache.Difference // of the prompt from that turn's
	Work    int              // tokens of prompts that the endpoint has computed since that turn, if it was there
}

// Expected is what a placed request is expected to miss.
type Expected struct {
	miss  Miss
	could int    // tokens of the prompt that could be found
	epoch uint32 // of the endpoint's cache
}

// Expect notes who sends the prompt's beginning, and says what the request is expected to miss.
func (t *Table) Expect(p *Placed) Expected {
	now := beginningOf(p.Request, p.Chosen.Model)
	was := t.note(now)
	e := Expected{epoch: p.Chosen.Epoch}
	switch {
	case p.Request.Class != fleet.Turn || p.View.Leg == fleet.LegDecode:
	case p.Last != nil:
		e.could = min(p.Last.Prompt, p.View.PromptTokens)
		if tokens := e.could - p.Chosen.CachedTokens; tokens > slack(e.could) {
			e.miss = p.ofKnown(tokens)
		}
	default:
		if was.name != 0 {
			e.could = p.Size.At(beginningBlocks * fleet.BlockBytes)
		}
		e.miss = p.ofNew(now, was, e.could-p.Chosen.CachedTokens)
	}
	return e
}

// ofKnown says why a known conversation's prompt is not there. tokens are those that are missing.
func (p *Placed) ofKnown(tokens int) Miss {
	m := Miss{Tokens: tokens}
	switch last, c, diff := p.Last, p.Chosen, &p.Differs; {
	case last.Model != "" && last.Model != c.Model:
		m.Cause = Adapter
	case diff.Known && !diff.Continues:
		m.Cause, m.From, m.To = Prefix, diff.From, diff.To
		m.Messages = [2]int{messageAt(p.Request.Content, diff.From), messageAt(p.Request.Content, diff.To-1)}
	case last.Endpoint != c.Name:
		m.Cause = Elsewhere
	case last.Epoch != c.Epoch:
		m.Cause = Restarted
	case diff.Known:
		m.Cause, m.Work = Evicted, p.Work
	default:
		m.Cause = Unclear
	}
	return m
}

// ofNew says why the beginning of a prompt without a known conversation is not there. tokens are those that are
// missing.
func (p *Placed) ofNew(now, was beginning, tokens int) Miss {
	has := func(c *pick.Candidate) bool { return c.Blocks >= beginningBlocks }
	switch {
	case now.name == 0 || has(p.Chosen): // nothing is known of it, or it is there
		return Miss{}
	case was.name == 0:
		return Miss{Cause: New}
	case was.tenant != now.tenant:
		return Miss{Cause: Tenant, Tokens: tokens}
	case was.model != now.model:
		return Miss{Cause: Adapter, Tokens: tokens}
	case slices.ContainsFunc(p.View.Candidates, func(o pick.Candidate) bool { return has(&o) }):
		return Miss{Cause: Elsewhere, Tokens: tokens}
	default:
		return Miss{Cause: Evicted, Tokens: tokens}
	}
}

// slack is how many tokens of a prompt may be uncached although none is missed: the last, partial blocks of the engine
// and of the router are computed anew.
func slack(tokens int) int { return tokens/16 + fleet.BlockBytes }

// messageAt is the message, from 1, in which a byte lies; 0 unknown.
func messageAt(c *fleet.Content, at int) int {
	if c == nil || len(c.Ends) == 0 {
		return 0
	}
	return min(sort.SearchInts(c.Ends, at+1), len(c.Ends)-1) + 1
}

// Corrected is what was missed, by what the engine counted: predicted is how many cached tokens were expected, and
// epoch that of the endpoint's cache now.
func (e *Expected) Corrected(u *fleet.Usage, predicted int, epoch uint32) Miss {
	m := e.miss
	if !u.CachedKnown || u.PromptTokens == 0 {
		return m
	}
	explained := m.Cause != None && m.Cause != New
	switch found := u.CachedTokens; {
	case explained && e.could-found <= slack(e.could):
		return Miss{}
	case m.Cause == None && predicted-found > slack(predicted):
		m = Miss{Cause: Evicted, Tokens: predicted - found, Unseen: true}
		if e.epoch != epoch {
			m.Cause = Restarted
		}
	case explained:
		m.Tokens = e.could - found
	}
	return m
}
