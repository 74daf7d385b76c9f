// Package miss says why a prompt was not found in the cache of the endpoint that got it, and how much of it could have
// been found there.
//
// It owns one table, of fixed size: for which tenant which beginning of prompts was computed last, with which model. In
// come a turn that was just placed, with what the other rooms know of it, that its prompt was computed, and later what
// its engine counted; out comes a fleet.Miss, in tokens of the prompt and bytes as the router writes prompts down.
// Nothing is decided by it: it is for those who ask why.
package miss

import (
	"sort"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/session"
)

// Table remembers for whom which beginnings of prompts were computed last: of two with the same place the later one
// counts. The zero value is ready to use.
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

func (t *Table) note(b beginning) {
	if b.name == 0 {
		return
	}
	if t.at == nil {
		t.at = make([]beginning, bound.Many)
	}
	t.at[b.name%bound.Many] = b
}

func (t *Table) named(name uint64) (b beginning) {
	if t.at != nil && t.at[name%bound.Many].name == name {
		return t.at[name%bound.Many]
	}
	return b
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
	miss   fleet.Miss
	could  int       // tokens of the prompt that could be found
	epoch  uint32    // of the endpoint's cache
	begins beginning // of the prompt
}

// Computed notes that the prompt of a request was computed. One that failed before, or whose client has left, leaves
// nothing that could be missed.
func (t *Table) Computed(e *Expected) { t.note(e.begins) }

// Expect says what the request is expected to miss.
func (t *Table) Expect(p *Placed) Expected {
	e := Expected{epoch: p.Chosen.Epoch, begins: beginningOf(p.Request, p.Chosen.Model)}
	switch {
	case p.Request.Class != fleet.Turn || p.View.Leg == fleet.LegDecode:
	case p.Last != nil:
		e.could = min(p.Last.Prompt, p.View.PromptTokens)
		if tokens := e.could - p.Chosen.CachedTokens; tokens > cache.Partial(e.could) {
			e.miss = p.ofKnown(tokens)
		}
	default:
		e.miss.Cause = p.ofNew(e.begins, t.named(e.begins.name))
		if e.miss.Cause != fleet.MissNone && e.miss.Cause != fleet.MissNew {
			e.could = p.Size.At(beginningBlocks * fleet.BlockBytes)
			e.miss.Tokens = e.could - p.Chosen.CachedTokens
		}
	}
	return e
}

// ofKnown says why a known conversation's prompt is not there. tokens are those that are missing.
func (p *Placed) ofKnown(tokens int) fleet.Miss {
	m := fleet.Miss{Tokens: tokens}
	switch last, c, diff := p.Last, p.Chosen, &p.Differs; {
	case last.Model != "" && last.Model != c.Model:
		m.Cause = fleet.MissAdapter
	case diff.Known && !diff.Continues:
		m.Cause, m.From, m.To = fleet.MissPrefix, diff.From, diff.To
		m.Messages = [2]int{messageAt(p.Request.Content, diff.From), messageAt(p.Request.Content, diff.To-1)}
	case last.Endpoint != c.Name || last.Tokens == 0: // a turn that it got, and did not compute
		m.Cause = fleet.MissElsewhere
	case last.Epoch != c.Epoch:
		m.Cause = fleet.MissRestarted
	case diff.Known:
		m.Cause, m.Work = fleet.MissEvicted, p.Work
	default:
		m.Cause = fleet.MissUnclear
	}
	return m
}

// ofNew says why the beginning of a prompt without a known conversation is not there; was is what is known of it.
func (p *Placed) ofNew(now, was beginning) fleet.MissCause {
	switch {
	case now.name == 0 || hasBeginning(p.Chosen): // nothing is known of it, or it is there
		return fleet.MissNone
	case p.elsewhere():
		return fleet.MissElsewhere
	case was.name == 0:
		return fleet.MissNew
	case was.tenant != now.tenant:
		return fleet.MissTenant
	case was.model != now.model:
		return fleet.MissAdapter
	default:
		return fleet.MissEvicted
	}
}

func hasBeginning(c *pick.Candidate) bool { return c.Blocks >= beginningBlocks }

// elsewhere reports whether a candidate has the prompt's beginning. Rows are not copied: most first turns come here.
func (p *Placed) elsewhere() bool {
	for i := range p.View.Candidates {
		if hasBeginning(&p.View.Candidates[i]) {
			return true
		}
	}
	return false
}

// messageAt is the message, from 1, in which a byte lies; 0 unknown.
func messageAt(c *fleet.Content, at int) int {
	if c == nil || len(c.Ends) == 0 {
		return 0
	}
	return min(sort.SearchInts(c.Ends, at+1), len(c.Ends)-1) + 1
}

// Corrected is what was missed, by what the engine counted: predicted is how many cached tokens were expected, and
// epoch that of the endpoint's cache now.
func (e *Expected) Corrected(u *fleet.Usage, predicted int, epoch uint32) fleet.Miss {
	m := e.miss
	if !u.CachedKnown || u.PromptTokens == 0 {
		return m
	}
	explained := m.Cause != fleet.MissNone && m.Cause != fleet.MissNew
	switch found := u.CachedTokens; {
	case explained && e.could-found <= cache.Partial(e.could):
		return fleet.Miss{}
	case m.Cause == fleet.MissNone && predicted-found > cache.Partial(predicted):
		m = fleet.Miss{Cause: fleet.MissEvicted, Tokens: predicted - found, Unseen: true}
		if e.epoch != epoch {
			m.Cause = fleet.MissRestarted
		}
	case explained:
		m.Tokens = e.could - found
	}
	return m
}
