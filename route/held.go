package route

import (
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/blocks"
)

// held is the blocks of an endpoint's outstanding requests, each counted once however many requests share it.
type held struct {
	flights []uint32
	next    int // of them, see refresh
	blocks  int
	prompts int64   // tokens of these requests' prompts, what they share counted for each
	perByte float64 // tokens a byte of the latest of them
}

// resident is how many tokens the endpoint's outstanding requests keep in its memory: prompts and answers to come, what prompts have in
// common once. Of a request whose content is not known all of it counts.
func (e *endpoint) resident() int64 {
	return max(0, e.load.ContextTokens-e.held.prompts) + int64(float64(e.held.blocks*fleet.BlockBytes)*e.held.perByte)
}

// wants notes that a pool's policy goes by blocks, or by who comes back.
func (r *Router) wants(p pick.Policy) {
	if c, ok := p.(pick.Counting); ok && c.CountsBlocks() {
		r.counting = true
	}
	if a, ok := p.(pick.Awaiting); ok && a.AwaitsReturns() {
		r.awaiting = true
	}
}

// hold counts a flight's blocks in. Names of blocks cover all before them, so that what is new of a chain is what follows the
// longest beginning that it has in common with another.
func (r *Router) hold(ep *endpoint, f *flight) {
	h := &ep.held
	h.blocks += blocks.Reach(len(f.chain)) - blocks.Reach(r.shared(ep, f.chain))
	h.prompts += int64(f.decision.PromptTokens)
	h.perByte = f.pool.size.TokensPerByte()
	h.flights = append(h.flights, f.index)
}

// letGo counts them out.
func (r *Router) letGo(f *flight) {
	h := &f.ep.held
	i := slices.Index(h.flights, f.index)
	if i < 0 {
		return
	}
	h.flights = slices.Delete(h.flights, i, i+1)
	h.blocks -= blocks.Reach(len(f.chain)) - blocks.Reach(r.shared(f.ep, f.chain))
	h.prompts -= int64(f.decision.PromptTokens)
}

// shared is how many blocks of a chain, from the first on, an endpoint's outstanding requests have.
func (r *Router) shared(ep *endpoint, chain []uint64) int {
	most := 0
	for _, i := range ep.held.flights {
		if c := r.flights[i].chain; most < min(len(c), len(chain)) && c[most] == chain[most] { // else they have no more in common than that
			most = blocks.Common(chain, c)
		}
	}
	return most
}

// count fills in the active tokens of the rows, for policies that go by them.
func (r *Router) count(d *decision, v *table) {
	x := &d.text
	if v.Counted = r.counting && d.req.Content != nil && x.known; !v.Counted {
		return
	}
	perBlock := float64(d.pool.size.TokensPerByte() * fleet.BlockBytes)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		ep := r.bySlot[c.Slot]
		if c.Model != x.model {
			r.look(x, d.req, c.Model)
		}
		c.ActiveTokens = int64(float64(ep.held.blocks) * perBlock)
		c.AddsTokens = v.PromptTokens - d.size.At(blocks.Bytes(r.shared(ep, x.keys)))
	}
}
