package cache

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// Open records that a request was placed at a row's endpoint under lease n. context is the tokens of prompts and answers outstanding
// there, this one included.
func (t *Table) Open(n uint32, v *pick.View, row int, x *Text, p *Prompt, context int64) {
	c := &v.Candidates[row]
	l := t.leases.Grow(int(n))
	e := t.endpoints.Get(c.Slot)
	l.begin()
	l.slot, l.epoch, l.turn, l.leg, l.placed = c.Slot, e.epoch, p.Request.Class == fleet.Turn, v.Leg, v.Now
	l.promptTokens, l.cachedTokens = v.PromptTokens, c.CachedTokens
	t.reported.Open(n, c.Slot, p.Request.Tenant, p.Session)
	switch {
	case !l.turn || p.Request.Content == nil:
	case len(p.Request.Content.List) > 0:
		t.enterList(l, e, c, x, p)
	case x.known && len(x.keys) > 0:
		t.enter(n, l, e, c, x, p)
	}
	t.goesOn(c.Slot, c.Name, l, e, p, context)
}

// enter adds a prompt's blocks to its endpoint's estimated content.
func (t *Table) enter(n uint32, l *lease, e *endpoint, c *pick.Candidate, x *Text, p *Prompt) {
	if c.Model != x.model {
		t.Reader().look(x, p.Request, c.Model)
	}
	t.reported.Note(n, &x.chain, p.Size.Tokens, c.Adapter)
	l.exact = x.chain.Known && c.Exact
	l.chain = append(l.chain[:0], x.keys...)
	l.depth, l.bytes = c.Blocks, p.Request.Content.Bytes
	l.sure, l.counted = t.sure(e, l), l.depth
	if x.present {
		l.counted = c.Present
	}
	t.limit(c.Slot, e, p.TokensPerByte)
	before := t.index.Units(c.Slot)
	t.insert(c.Slot, e, l.chain)
	t.added(n, e, l, before, p.TokensPerByte)
}

// sure is how many of the blocks predicted for a prompt are computed already, not pending for another request.
func (t *Table) sure(e *endpoint, l *lease) int {
	sure := l.depth
	for _, i := range e.pending {
		g := t.leases.Get(int(i))
		// A block's name covers all before it, so two chains have more than g.sure blocks in common if that one is the same.
		if n := g.sure; n < sure && n < min(len(l.chain), len(g.chain)) && l.chain[n] == g.chain[n] {
			sure = n
		}
	}
	return sure
}

// insert adds a chain, and returns how many blocks of it are new there. A cache for one prompt loses the previous one.
func (t *Table) insert(slot int, e *endpoint, chain []uint64) (added int) {
	if e.facts.OnePrompt {
		t.index.Clear(slot)
	}
	return t.index.Insert(slot, chain)
}
