package route

import (
	"slices"
	"sort"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// MissCause is why a prompt was not found in the cache of the endpoint that got it.
type MissCause string

// The causes. None says anything about a prompt whose content was not read, but for a conversation's home.
const (
	MissNone      MissCause = ""
	MissNew       MissCause = "never_there"    // nobody has sent a prompt that begins so
	MissEvicted   MissCause = "evicted"        // it was there, and made room for others
	MissRestarted MissCause = "restarted"      // the engine has lost its cache since
	MissPrefix    MissCause = "another_prefix" // it differs from the conversation's last prompt
	MissTenant    MissCause = "another_tenant" // its beginning was sent by another tenant, whose cache is kept apart
	MissAdapter   MissCause = "another_model"  // it was computed with another model or adapter
	MissElsewhere MissCause = "elsewhere"      // the conversation, or its beginning, is at another endpoint
	MissUnclear   MissCause = "unclear"        // the last prompt was at another router, or before a restart of this one
)

// Miss is what was missed, and why. It is as of the decision, and corrected by the cached tokens that the engine
// reported. It has no text.
type Miss struct {
	Cause  MissCause
	Tokens int // that could have been found, and were not
	Work   int // with MissEvicted: tokens of prompts that the endpoint has computed since; 0 unknown
	// with MissPrefix: bytes of the prompt that both have, and those by the end of which they differ, as the router
	// writes prompts down
	From, To int
	Messages [2]int // the messages, from 1, in which these lie; 0 unknown
	Unseen   bool   // the router had expected to find it
}

// beginnings remembers who sent which beginnings of prompts last, in a table of fixed size: of two with the same place
// the later one counts.
type beginnings struct{ at []beginning }

type beginning struct{ name, tenant, model uint64 }

const beginningBlocks = 8 // 1 kB

// beginningOf is the name of a prompt's beginning, whoever sends it; 0 for one that is too short.
func beginningOf(c *fleet.Content) uint64 {
	if c == nil || len(c.Blocks) < beginningBlocks || len(c.List) > 0 {
		return 0
	}
	return blocks.Scramble(c.Blocks[beginningBlocks-1] ^ blocks.Scramble(c.Scope))
}

// note stores a beginning and returns the one that had its name; zero for none.
func (b *beginnings) note(now beginning) (was beginning) {
	if b.at == nil {
		b.at = make([]beginning, bound.Many)
	}
	at := &b.at[now.name%bound.Many]
	if at.name == now.name {
		was = *at
	}
	*at = now
	return was
}

// miss is why a turn that was just reserved is not in the cache of its endpoint, as far as is known now, and how many
// tokens of its prompt could have been found.
func (r *Router) miss(d *decision, p *placement, f *reservation) (m Miss, could int) {
	v, t := p.view, p.who
	c := &v.Candidates[p.choice.Index]
	var was beginning
	name := beginningOf(d.req.Content)
	if name != 0 {
		was = r.beginnings.note(beginning{name, blocks.Hash(d.req.Tenant, ""), blocks.Hash("", c.Model)})
	}
	if d.req.Class != fleet.Turn || v.Leg == fleet.LegDecode {
		return m, 0
	}
	last := &t.Entry
	if t.Known && last.Prompt > 0 {
		could = min(last.Prompt, v.PromptTokens)
	} else if was.name != 0 {
		could = d.size.At(beginningBlocks * fleet.BlockBytes)
	}
	m.Tokens = could - c.CachedTokens
	if t.Known && last.Prompt > 0 {
		if m.Tokens <= slack(could) {
			return Miss{}, could
		}
		held := 0
		if v.Home >= 0 {
			held = v.Candidates[v.Home].Blocks
		}
		diff := d.text.Differs(last.Bytes, last.Marks, held)
		switch {
		case last.Model != "" && last.Model != c.Model:
			m.Cause = MissAdapter
		case diff.Known && !diff.Goes:
			m.Cause, m.From, m.To = MissPrefix, diff.From, diff.To
			m.Messages = [2]int{messageAt(d.req.Content, diff.From), messageAt(d.req.Content, diff.To-1)}
		case last.Endpoint != c.Name:
			m.Cause = MissElsewhere
		case last.Epoch != c.Epoch:
			m.Cause = MissRestarted
		case diff.Known:
			m.Cause, m.Work = MissEvicted, r.workSince(d, f, last.Flow)
		default:
			m.Cause = MissUnclear
		}
		return m, could
	}
	switch {
	case name == 0 || c.Blocks >= beginningBlocks: // nothing is known of it, or it is there
		return Miss{}, could
	case was.name == 0:
		m.Cause, m.Tokens = MissNew, 0
	case was.tenant != blocks.Hash(d.req.Tenant, ""):
		m.Cause = MissTenant
	case was.model != blocks.Hash("", c.Model):
		m.Cause = MissAdapter
	case slices.ContainsFunc(v.Candidates, func(o pick.Candidate) bool { return o.Blocks >= beginningBlocks }):
		m.Cause = MissElsewhere
	default:
		m.Cause = MissEvicted
	}
	return m, could
}

// slack is how many tokens of a prompt that is found are not: the last, partial block of the engine and of the router.
func slack(tokens int) int { return tokens/16 + fleet.BlockBytes }

// workSince is the tokens of prompts that an endpoint has computed since a conversation's turn ended there.
func (r *Router) workSince(d *decision, f *reservation, flow uint32) int {
	return int(float64(r.cache.Reader().Work(f.index, flow)) * d.pool.TokensPerByte())
}

// messageAt is the message, from 1, in which a byte lies; 0 unknown.
func messageAt(c *fleet.Content, at int) int {
	if c == nil || len(c.Ends) == 0 {
		return 0
	}
	return min(sort.SearchInts(c.Ends, at+1), len(c.Ends)-1) + 1
}

// missed corrects why a turn was not in the cache by what the engine said.
func (r *Router) missed(f *reservation, u *fleet.Usage) Miss {
	m, could := f.explanation.miss, f.explanation.could
	if !u.CachedKnown || u.PromptTokens == 0 {
		return m
	}
	switch found, predicted := u.CachedTokens, f.decision.CachedTokens; {
	case m.Cause != MissNone && m.Cause != MissNew && could-found <= slack(could):
		return Miss{}
	case m.Cause == MissNone && predicted-found > slack(predicted):
		m = Miss{Cause: MissEvicted, Tokens: predicted - found, Unseen: true}
		if r.cache.Reader().Epoch(f.ep.Slot()) != f.explanation.epoch {
			m.Cause = MissRestarted
		}
	case m.Cause != MissNone && m.Cause != MissNew:
		m.Tokens = could - found
	}
	return m
}
