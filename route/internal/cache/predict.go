package cache

import (
	"slices"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// Found is what of a prompt is found at all endpoints together, as columns of a pick.View.
type Found struct {
	MostCached int
	Missed     float64
	Counted    bool
}

// Predict says what each endpoint holds of a prompt, how certain that is, and the memory that outstanding requests
// occupy. home is the index of the conversation's home, -1 for none. memory is for the result. m is what this
// decision's prompts have missed so far; it comes back with this one's added.
func (r Reader) Predict(
	x *Lookups, p *Prompt, at pick.Endpoints, home int, m Missed, memory []pick.Cached,
) ([]pick.Cached, Found, Missed) {
	cached := slices.Grow(memory[:0], at.Len())[:at.Len()]
	clear(cached)
	all, m := r.find(x, p, at, home, m, cached)
	if all.Counted = p.CountsActive && isText(p.Request, p.Size.Tokens); all.Counted {
		r.countActive(x, p, at, cached)
	}
	for i := range at.Len() {
		c, h, e := at.At(i), &cached[i], r.t.endpoints.Get(at.At(i).Slot)
		h.Full, h.Resident = r.full(c.Slot, fullForMisses), e.residentTokens(c.Load.ContextTokens)
		h.Counted, h.Present, h.PresentTokens = h.Blocks, r.present(x, p, c, h.Blocks), h.CachedTokens
		if h.Present < h.Blocks {
			h.PresentTokens = min(h.CachedTokens, r.wholeBlocks(c, p.Size.At(blocks.Bytes(h.Present))))
		}
		switch {
		case r.t.without.Has(ablation.Losses):
		case p.Leg == fleet.LegPrefill:
			h.ExpectedMiss = e.expectedMiss(h, h.CachedTokens)
		default:
			h.ExpectedMiss = e.expectedMiss(h, h.PresentTokens)
		}
	}
	return cached, all, m
}

func (r Reader) find(
	x *Lookups, p *Prompt, at pick.Endpoints, home int, m Missed, cached []pick.Cached,
) (all Found, _ Missed) {
	req := p.Request
	if req.ReadsNoCache {
		return all, m
	}
	if req.Content != nil && len(req.Content.List) > 0 {
		r.predictList(x, p, at, cached)
		all.MostCached = most(cached)
		return all, m
	}
	if !isText(req, p.Size.Tokens) {
		if home >= 0 {
			r.predictHome(p, at.At(home), &cached[home])
		}
		return all, m
	}
	for i := range at.Len() {
		c, h := at.At(i), &cached[i]
		if i == 0 || c.Model != x.model {
			r.look(x, req, c.Model)
		}
		if r.t.endpoints.Get(c.Slot).off() {
			continue
		}
		h.Blocks = x.matches.Depth(c.Slot)
		h.CachedTokens = r.tokensOf(p, c, h.Blocks)
	}
	r.merge(x, p, at, cached)
	all.MostCached = most(cached)
	// with fewer blocks some of it was evicted, or the client changed its history
	if home >= 0 && !cached[home].Exact && cached[home].Blocks >= blocks.Kept(p.Entry.Bytes/fleet.BlockBytes) {
		r.predictHome(p, at.At(home), &cached[home])
		all.MostCached = max(all.MostCached, cached[home].CachedTokens)
	}
	r.findFar(x, p, at, cached)
	gone := 0
	if p.Known && p.Entry.Prompt > 0 {
		gone = min(p.Entry.Prompt, p.Size.Tokens) - all.MostCached - Partial(p.Entry.Prompt)
	}
	m.tokens.Move(fit.Usual, float64(max(0, gone)))
	if r.t.evicted > 0 {
		all.Missed = min(1, float64(m.tokens)/float64(r.t.evicted))
	}
	return all, m
}

// Partial is how many of a prompt's tokens may be uncached although nothing is missing: the last, partial blocks of the
// engine and of the router are computed anew.
func Partial(tokens int) int { return tokens/16 + fleet.BlockBytes }

// findFar says what of the predicted tokens only a second tier has. Until as much is known as an engine's own memory
// holds, nothing is said.
func (r Reader) findFar(x *Lookups, p *Prompt, at pick.Endpoints, cached []pick.Cached) {
	if r.t.near == nil {
		return
	}
	for i := range at.Len() {
		c, h := at.At(i), &cached[i]
		most := r.t.near.Capacity(c.Slot)
		if !r.tiered(c.Slot) || r.t.near.Units(c.Slot) < most-most/nearlyFull {
			continue
		}
		if c.Model != x.model {
			r.look(x, p.Request, c.Model)
		}
		near := x.near.Depth(c.Slot)
		far := max(0, h.CachedTokens-r.wholeBlocks(c, p.Size.At(blocks.Bytes(near))))
		// an answer before, which has no blocks yet, is not far
		if near < h.Blocks || h.Exact && 8*far > h.CachedTokens {
			h.Far = far
		}
	}
}

// most is the most tokens found at any endpoint.
func most(cached []pick.Cached) (tokens int) {
	for i := range cached {
		tokens = max(tokens, cached[i].CachedTokens)
	}
	return tokens
}

// predictHome adds the conversation's previous answer to its home's prediction, as far as answers are found again. The
// router sees an answer's blocks only in the next prompt; the home holds them as long as it holds the prompt before.
func (r Reader) predictHome(p *Prompt, c *pick.Endpoint, h *pick.Cached) {
	if p.Size.Tokens == 0 || c.Epoch != p.Entry.Epoch || !isOf(&p.Entry, c.Model) {
		return
	}
	cached := p.Entry.Tokens
	if !r.t.without.Has(ablation.Answers) {
		cached = p.AnswerReuse.Kept(&p.Entry)
	}
	h.CachedTokens = max(h.CachedTokens, r.wholeBlocks(c, min(cached, p.Size.Tokens-1)))
}

// merge replaces predictions by what KV events say, where they are complete.
func (r Reader) merge(x *Lookups, p *Prompt, at pick.Endpoints, cached []pick.Cached) {
	if r.lookInEvents(x, p); !x.chain.Known {
		return
	}
	for i := range at.Len() {
		c, h := at.At(i), &cached[i]
		if c.Model != x.model {
			r.look(x, p.Request, c.Model)
			r.lookInEvents(x, p)
		}
		if tokens, ok := r.exact(x, p, c, h); ok {
			h.Exact, h.CachedTokens = true, max(tokens, r.tokensOf(p, c, r.coming(x, p, c)))
		}
	}
}

// exact is the tokens of the prompt cached according to events; ok is false where the events may be incomplete.
func (r Reader) exact(x *Lookups, p *Prompt, c *pick.Endpoint, h *pick.Cached) (tokens int, ok bool) {
	events := r.t.Events
	if !events.Trusted(c.Slot) {
		return 0, false
	}
	if tokens, whole, ok := events.ByIDs(c.Slot, &x.ids, p.Size.Tokens); ok && !c.Adapter {
		if events.State(c.Slot) == kvstream.Partial || !whole {
			return tokens, tokens >= h.CachedTokens
		}
		return tokens, true
	}
	tokens, said := events.ByChain(c.Slot, &x.chain, p.Size.Tokens)
	if !said || events.Deeper(c.Slot, &x.chain, h.CachedTokens) {
		return 0, false
	}
	if events.State(c.Slot) == kvstream.Partial || h.Blocks > x.chain.Covers {
		return tokens, tokens >= h.CachedTokens // more may be there than is known
	}
	return tokens, true
}

// tokensOf is the size of the first blocks of the prompt, in tokens: at most all tokens but the last.
func (r Reader) tokensOf(p *Prompt, c *pick.Endpoint, depth int) int {
	return r.wholeBlocks(c, min(p.Size.At(blocks.Bytes(depth)), max(0, p.Size.Tokens-1)))
}

// coming is the blocks that the prompt shares with another request that is being computed there, or whose events are
// due.
func (r Reader) coming(x *Lookups, p *Prompt, c *pick.Endpoint) int {
	e, most := r.t.endpoints.Get(c.Slot), 0
	for _, a := range e.coming.groups {
		most = a.prompts.common(&r.t.leases, x.keys, most)
	}
	return e.unreported.common(p.Now, x.keys, most)
}

// present is the blocks of the prompt that are there now or computed before this request: of what only transfers are to
// bring, nothing. A transfer that was announced while its blocks were not there says nothing of those that have been
// computed or have arrived since.
func (r Reader) present(x *Lookups, p *Prompt, c *pick.Endpoint, believed int) int {
	present := believed
	if c.Load.TransferRequests == 0 || !isText(p.Request, p.Size.Tokens) || r.t.without.Has(ablation.PendingTransfers) {
		return present
	}
	keys, coming := r.Names(x, p.Request, p.Size.Tokens, c.Model), r.t.endpoints.Get(c.Slot).coming.groups
	computed := r.t.index.Confirmed(c.Slot, keys)
	for _, a := range coming {
		if !a.transfer {
			computed = a.prompts.common(&r.t.leases, keys, computed)
		}
	}
	for _, a := range coming {
		if !a.transfer {
			continue
		}
		for p := range a.prompts.beyond(&r.t.leases, keys, computed) {
			l := r.t.leases.Get(int(p.lease))
			if n := max(l.sure, computed); n < present && n < min(len(keys), len(l.chain)) && keys[n] == l.chain[n] {
				present = n
			}
		}
	}
	return present
}

// countActive counts ActiveTokens and AddsTokens, for policies that ask for them.
func (r Reader) countActive(x *Lookups, p *Prompt, at pick.Endpoints, cached []pick.Cached) {
	perBlock := float64(p.TokensPerByte * fleet.BlockBytes)
	for i := range at.Len() {
		c, h := at.At(i), &cached[i]
		e := r.t.endpoints.Get(c.Slot)
		if c.Model != x.model {
			r.look(x, p.Request, c.Model)
		}
		h.ActiveTokens = int64(float64(e.outstanding.blocks) * perBlock)
		h.AddsTokens = p.Size.Tokens - p.Size.At(blocks.Bytes(r.t.shared(e, x.keys)))
	}
}

// Sharers are the outstanding first turns whose prompts begin with all blocks of this one that any endpoint is believed
// to hold. All of them are at endpoints that hold these: the blocks of a request are believed to be where it is. cached
// is as Predict found it. Of the many requests of an endpoint it looks at bound.Step, at even distances.
func (r Reader) Sharers(x *Lookups, p *Prompt, at pick.Endpoints, cached []pick.Cached) (s pick.Sharers) {
	longest := 0
	for i := range cached {
		longest = max(longest, cached[i].Blocks)
	}
	if !isText(p.Request, p.Size.Tokens) || longest == 0 {
		return s
	}
	for i := range cached {
		if cached[i].Blocks < longest {
			continue
		}
		c := at.At(i)
		r.look(x, p.Request, c.Model)
		sharing := r.t.endpoints.Get(c.Slot).outstanding.sorted.of(&r.t.leases, x.keys[:longest])
		each := max(1, float64(len(sharing))/bound.Step)
		for k := 0.0; int(k) < len(sharing); k += each {
			if l := r.t.leases.Get(int(sharing[int(k)].lease)); l.first {
				s.Turns += each
				s.OldestMs = max(s.OldestMs, fleet.Ms(p.Now.Sub(l.placed)))
			}
		}
	}
	return s
}
