package cache

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/blocks"
)

// Open enters that a request was placed at the endpoint of a row, under a lease's number. context is the tokens of prompts and answers
// of what is outstanding there, this one included.
func (t *Table) Open(n uint32, v *pick.View, row int, x *Text, p *Prompt, context int64) {
	c := &v.Candidates[row]
	l := t.leases.Get(int(n))
	e := t.endpoints.Get(c.Slot)
	*l = lease{
		slot: c.Slot, engine: e.engine, epoch: e.epoch, turn: p.Request.Class == fleet.Turn, leg: v.Leg, placed: v.Now,
		promptTokens: v.PromptTokens, cachedTokens: c.CachedTokens, chain: l.chain[:0],
	}
	t.reported.Open(n, c.Slot, p.Request.Tenant, p.Session)
	if l.turn && p.Request.Content != nil && x.known && len(x.keys) > 0 {
		t.enter(n, l, e, c, x, p)
	}
	l.recent = t.Reader().goesOnRecently(c.Slot, c.Name, p, context)
	if g := &p.Entry; v.Leg == fleet.LegWhole && p.Known && !p.Repeats && g.Endpoint == c.Name && g.Epoch == e.epoch && g.Prompt > 0 {
		l.base, l.answer = g.Prompt, g.Tokens-g.Prompt
		l.since = t.since(e, p)
	}
}

// enter enters a prompt's blocks into what its endpoint is believed to hold.
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
	more := blocks.Reach(len(l.chain)) - blocks.Reach(l.depth)
	e.flow += int64(more)
	units := t.index.Units(c.Slot) + more
	t.insert(c.Slot, e, l.chain)
	gone := float64(max(0, units-t.index.Units(c.Slot))*fleet.BlockBytes) * p.TokensPerByte
	t.evicted += float64(missedRate * (gone - t.evicted))
	e.pending = append(e.pending, n)
	t.hold(e, n, l, p.TokensPerByte)
}

// sure is how many of the blocks that a prompt hopes to find are not only about to be computed for another one.
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

// insert enters a chain. A cache for one prompt loses the one before.
func (t *Table) insert(slot int, e *endpoint, chain []uint64) {
	if e.facts.OnePrompt {
		t.index.Clear(slot)
	}
	t.index.Insert(slot, chain)
}
