package cache

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
)

// missedRate is the weight of a turn in the means behind View.Missed.
const missedRate = 0.02

// Predict fills the package's columns of a view: the cached tokens of the prompt at each endpoint, how certain they are, and the
// memory that outstanding requests occupy.
func (r Reader) Predict(v *pick.View, x *Text, p *Prompt) {
	r.predict(v, x, p)
	r.countActive(v, x, p)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		e := r.t.endpoints.Get(c.Slot)
		c.Full = r.full(c.Slot, 64)
		c.Resident = e.resident(c.Load.ContextTokens)
		c.Present = r.present(x, c)
		c.PresentTokens = c.CachedTokens
		if c.Present < c.Blocks {
			c.PresentTokens = min(c.CachedTokens, r.wholeBlocks(c, p.Size.At(blocks.Bytes(c.Present))))
		}
		switch {
		case r.t.without.Has(ablation.Losses):
		case v.Leg == fleet.LegPrefill:
			c.ExpectedMiss = e.expectedMiss(c, c.CachedTokens)
		default:
			c.ExpectedMiss = e.expectedMiss(c, c.PresentTokens)
		}
	}
}

// OnlyPresent removes pending transfers of decode legs from the rows' cached tokens. The view must be filled by Predict.
func OnlyPresent(v *pick.View, x *Text) {
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.CachedTokens = c.PresentTokens
	}
	x.present = true
}

func (r Reader) predict(v *pick.View, x *Text, p *Prompt) {
	req := p.Request
	x.known, x.chain.Known = false, false
	v.Known, v.Missed = 0, 0
	if req.Content != nil && len(req.Content.List) > 0 {
		r.predictList(v, x, p)
		return
	}
	if req.Content == nil || len(req.Content.Blocks) == 0 || v.PromptTokens == 0 {
		r.predictHome(v, p, 0, false)
		return
	}
	x.known = true
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if i == 0 && !x.ready || c.Model != x.model {
			r.look(x, req, c.Model)
		}
		c.Blocks = x.matches.Depth(c.Slot)
		c.CachedTokens = r.wholeBlocks(c, min(p.Size.At(blocks.Bytes(c.Blocks)), v.PromptTokens-1))
		v.Known = max(v.Known, c.CachedTokens)
	}
	r.merge(v, x, p)
	if v.Home >= 0 && !v.Candidates[v.Home].Exact {
		r.predictHome(v, p, v.Candidates[v.Home].Blocks, true)
		v.Known = max(v.Known, v.Candidates[v.Home].CachedTokens)
	}
	gone := 0
	if p.Known && p.Entry.Prompt > 0 {
		gone = min(p.Entry.Prompt, v.PromptTokens) - v.Known - p.Entry.Prompt/16 - fleet.BlockBytes // the last, partial block is not missing
	}
	x.missed.Move(missedRate, float64(max(0, gone)))
	if r.t.evicted > 0 {
		v.Missed = min(1, float64(x.missed)/float64(r.t.evicted))
	}
}

// predictHome adds the conversation's previous answer to its home's prediction, as far as answers are found again. The router sees
// an answer's blocks only in the next prompt; the home holds them as long as it holds the prompt before.
func (r Reader) predictHome(v *pick.View, p *Prompt, depth int, believed bool) {
	if v.Home < 0 || v.PromptTokens == 0 || v.Candidates[v.Home].Epoch != p.Entry.Epoch {
		return
	}
	if believed && depth < blocks.Kept(p.Entry.Bytes/fleet.BlockBytes) {
		return // some of it was evicted, or the client changed its history
	}
	c, held := &v.Candidates[v.Home], p.Entry.Tokens
	if said := held - p.Entry.Prompt; p.Entry.Prompt > 0 && said > 0 && !r.t.without.Has(ablation.Answers) {
		held = p.Entry.Prompt + p.Answers.found(said)
	}
	c.CachedTokens = max(c.CachedTokens, r.wholeBlocks(c, min(held, v.PromptTokens-1)))
}

// merge replaces predictions by what KV events say, where they are complete.
func (r Reader) merge(v *pick.View, x *Text, p *Prompt) {
	events := r.t.reported.Reader()
	if !x.ready {
		events.Find(&x.chain, p.Request.Tenant, p.Session, p.Request.Tokens, x.keys, &x.matches)
	}
	x.ready = false
	if !x.chain.Known {
		return
	}
	v.Known = 0
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if tokens, ok := r.exact(events, v, x, c); ok {
			c.Exact, c.CachedTokens = true, max(tokens, r.beingComputed(v, x, p, c))
		}
		v.Known = max(v.Known, c.CachedTokens)
	}
}

// exact is the tokens of the prompt cached according to events; ok is false where the events may be incomplete.
func (r Reader) exact(events reported.Reader, v *pick.View, x *Text, c *pick.Candidate) (tokens int, ok bool) {
	if !events.Trusted(c.Slot) || c.Model != x.model {
		return 0, false
	}
	if tokens, whole, ok := events.ByIDs(c.Slot, &x.chain, v.PromptTokens); ok && !c.Adapter {
		if events.State(c.Slot) == kvstream.Partial || !whole {
			return tokens, tokens >= c.CachedTokens
		}
		return tokens, true
	}
	tokens, said := events.Tokens(c.Slot, &x.chain, v.PromptTokens)
	if !said || events.Deeper(c.Slot, &x.chain, c.CachedTokens) {
		return 0, false
	}
	if events.State(c.Slot) == kvstream.Partial || c.Blocks > x.chain.Covers {
		return tokens, tokens >= c.CachedTokens // more may be there than is known
	}
	return tokens, true
}

// beingComputed is the tokens that the prompt shares with another request that is being computed there, or whose events are due.
func (r Reader) beingComputed(v *pick.View, x *Text, p *Prompt, c *pick.Candidate) int {
	most := r.coming(v, x, c)
	if most == 0 {
		return 0
	}
	return r.wholeBlocks(c, min(p.Size.At(blocks.Bytes(most)), v.PromptTokens-1))
}

// coming is beingComputed in blocks.
func (r Reader) coming(v *pick.View, x *Text, c *pick.Candidate) int {
	e, most := r.t.endpoints.Get(c.Slot), 0
	for _, n := range e.pending {
		most = r.t.leases.Get(int(n)).common(x.keys, most)
	}
	return e.unreported.common(v.Now, x.keys, most)
}

// present is the blocks of the prompt that are there now or computed before this request; pending transfers are left out.
func (r Reader) present(x *Text, c *pick.Candidate) int {
	present, keys := c.Blocks, x.keys
	if c.Load.TransferRequests == 0 || r.t.without.Has(ablation.PendingTransfers) {
		return present
	}
	for _, k := range r.t.endpoints.Get(c.Slot).pending {
		g := r.t.leases.Get(int(k))
		if n := g.sure; g.leg == fleet.LegDecode && n < present && n < min(len(keys), len(g.chain)) && keys[n] == g.chain[n] {
			present = n
		}
	}
	return present
}

// countActive fills ActiveTokens and AddsTokens, for policies that ask for them.
func (r Reader) countActive(v *pick.View, x *Text, p *Prompt) {
	if v.Counted = p.CountsActive && p.Request.Content != nil && x.known; !v.Counted {
		return
	}
	perBlock := float64(p.TokensPerByte * fleet.BlockBytes)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		e := r.t.endpoints.Get(c.Slot)
		if c.Model != x.model {
			r.look(x, p.Request, c.Model)
		}
		c.ActiveTokens = int64(float64(e.held.blocks) * perBlock)
		c.AddsTokens = v.PromptTokens - p.Size.At(blocks.Bytes(r.t.shared(e, x.keys)))
	}
}
