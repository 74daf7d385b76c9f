package cache

import (
	"iter"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
)

// A request may have several prompts. Engines compute and cache each by itself, so what they hold of a request is a
// sum. Its answer teaches nothing here: some engines report the cached tokens of the first prompt alone.

// list is the block names of each prompt of a lease.
type list struct {
	names []uint64 // of all
	ends  []int    // where in names each ends
}

func (p *list) none() bool { return len(p.ends) == 0 }

func (p *list) add(chain []uint64) {
	p.names = append(p.names, chain...)
	p.ends = append(p.ends, len(p.names))
}

// prompt is the chain of one of a lease's prompts.
func (l *lease) prompt(i int) []uint64 {
	switch {
	case l.list.none():
		return l.chain
	case i == 0:
		return l.list.names[:l.list.ends[0]]
	default:
		return l.list.names[l.list.ends[i-1]:l.list.ends[i]]
	}
}

// prompts goes through the prompts of a lease that have blocks.
func (l *lease) prompts() iter.Seq2[int, []uint64] {
	return func(yield func(i int, chain []uint64) bool) {
		for i := range max(1, len(l.list.ends)) {
			if chain := l.prompt(i); len(chain) > 0 && !yield(i, chain) {
				return
			}
		}
	}
}

// adds is how many blocks a lease's prompt adds to what its endpoint was estimated to have.
func (l *lease) adds() int { return blocks.Reach(len(l.chain)) - blocks.Reach(l.depth) }

func (r Reader) lookListed(x *Lookups, req *fleet.Request, q *fleet.Listed, model string) {
	x.done = 0
	x.next(model)
	x.keys = blocks.Keys(x.keys, blocks.Scope(model, req.Tenant, req.Content), &fleet.Content{Blocks: q.Blocks})
	r.t.index.Match(x.keys, &x.matches)
}

// predictList sums what each endpoint holds of the prompts of a request with several.
func (r Reader) predictList(x *Lookups, p *Prompt, at pick.Endpoints, cached []pick.Cached) {
	for i := range cached {
		cached[i].Exact = true
	}
	all := p.Request.Content.List
	for i := range all {
		r.addListed(x, p, &all[i], at, cached)
	}
	x.ids.Of(nil)
}

// addListed adds what each endpoint holds of one prompt.
func (r Reader) addListed(x *Lookups, p *Prompt, q *fleet.Listed, at pick.Endpoints, cached []pick.Cached) {
	x.ids.Of(q.Tokens)
	one := *p
	one.Size = p.Size.Listed(q)
	for i := range at.Len() {
		c, h := at.At(i), &cached[i]
		if i == 0 || c.Model != x.model {
			r.lookListed(x, p.Request, q, c.Model)
		}
		believed := pick.Cached{CachedTokens: r.tokensOf(&one, c, x.matches.Depth(c.Slot))}
		tokens, exact := r.exact(x, &one, c, &believed) // by its token ids: of a list events say no more
		if exact {
			believed.CachedTokens = max(tokens, r.tokensOf(&one, c, r.coming(x, p, c)))
		}
		h.CachedTokens += believed.CachedTokens
		h.Exact = h.Exact && exact
	}
}

// enterList adds the blocks of several prompts to their endpoint's estimated content.
func (t *Table) enterList(n uint32, l *lease, e *endpoint, c *pick.Candidate, x *Lookups, p *Prompt) {
	all := p.Request.Content.List
	t.limit(e, p.TokensPerByte)
	before, more := t.index.Units(c.Slot), 0
	for i := range all {
		t.lookListed(x, p.Request, &all[i], c.Model)
		depth := x.matches.Depth(c.Slot)
		l.list.add(x.keys)
		if len(x.keys) > 0 {
			more += blocks.Reach(len(x.keys)) - blocks.Reach(depth)
			t.expect(e, x.keys)
		}
	}
	t.grew(n, e, l, more, before, p.TokensPerByte)
}
