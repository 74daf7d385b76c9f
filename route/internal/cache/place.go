package cache

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/session"
)

// Open records that a request was placed at a row's endpoint under lease n.
func (t *Table) Open(n uint32, v *pick.View, row int, x *Lookups, p *Prompt) {
	c := &v.Candidates[row]
	l := t.leases.Grow(int(n))
	e := t.endpoints.Get(c.Slot)
	l.begin()
	l.slot, l.epoch, l.turn, l.leg = c.Slot, e.epoch, p.Request.Class == fleet.Turn, v.Leg
	l.first, l.placed = v.FirstTurn, p.Now
	l.promptTokens, l.cachedTokens = v.PromptTokens, c.CachedTokens
	t.Events.Open(n, c.Slot, p.Request.Tenant, p.Session)
	switch {
	case !l.turn || p.Request.Content == nil:
	case len(p.Request.Content.List) > 0:
		t.enterList(n, l, e, c, x, p)
	case isText(p.Request, p.Size.Tokens):
		t.enter(n, l, e, c, x, p)
	}
	t.goesOn(c.Name, c.Model, l, e, p)
}

// refuses reports whether the engine is expected to refuse a prompt, since it is longer than its context or its cache;
// 0 tokens of context are unknown. The engine evicts nothing for such a prompt. If it computes one after all, confirm
// adds that. A limit on the answer does not count: some engines shorten the answer instead.
func (e *endpoint) refuses(prompt, context int) bool {
	return context > 0 && prompt > context || e.facts.CacheTokens > 0 && int64(prompt) > e.facts.CacheTokens
}

func (t *Table) enter(n uint32, l *lease, e *endpoint, c *pick.Candidate, x *Lookups, p *Prompt) {
	t.look(x, p.Request, c.Model)
	t.lookInEvents(x, p)
	t.Events.Note(n, &x.chain, &x.ids, p.Size.Tokens, c.Adapter)
	l.exact = x.chain.Known && c.Exact
	l.chain = append(l.chain[:0], x.keys...)
	l.depth, l.bytes = c.Blocks, p.Request.Content.Bytes
	l.sure, l.counted = min(t.index.Confirmed(c.Slot, l.chain), l.depth), c.Counted
	if l.refused = e.refuses(p.Size.Tokens, c.Context); l.refused {
		t.addResident(e, n, l, p.TokensPerByte)
		return
	}
	t.limit(e, p.TokensPerByte)
	before := t.index.Units(c.Slot)
	t.expect(e, l.chain)
	t.added(n, e, l, before, p.TokensPerByte)
}

// expect adds a prompt that is still to be computed, and returns how many blocks of it are new there.
func (t *Table) expect(e *endpoint, chain []uint64) (added int) {
	if !e.facts.OnePrompt {
		t.insertNear(e.slot, chain)
		return t.index.Insert(e.slot, chain)
	}
	added = len(chain) - blocks.Common(chain, t.only(e))
	t.replace(e, chain)
	return added
}

// add adds a prompt that is computed.
func (t *Table) add(e *endpoint, chain []uint64) {
	if e.facts.OnePrompt {
		e.last = append(e.last[:0], chain...)
		t.replace(e, t.only(e))
		return
	}
	t.index.Insert(e.slot, chain)
	t.index.Confirm(e.slot, chain)
	t.insertNear(e.slot, chain)
}

// insertNear adds what an engine with a second tier has in its own memory then.
func (t *Table) insertNear(slot int, chain []uint64) {
	if t.near != nil && t.tiered(slot) {
		t.near.Insert(slot, chain)
	}
}

// only is the prompt in a cache for one: that of the latest request to be computed, else the one computed last.
func (t *Table) only(e *endpoint) []uint64 {
	if n := len(e.coming.leases); n > 0 {
		if l := t.leases.Get(int(e.coming.leases[n-1])); l.epoch == e.epoch {
			return l.chain
		}
	}
	return e.last
}

// replace replaces the content of a cache for one prompt.
func (t *Table) replace(e *endpoint, chain []uint64) {
	t.index.Clear(e.slot)
	t.index.Insert(e.slot, chain)
	t.index.Confirm(e.slot, e.last)
}

// takeBack removes what a request alone was to bring that ended before it was computed: blocks that were computed for
// others, or are to be, stay.
func (t *Table) takeBack(l *lease, e *endpoint) {
	if l.epoch == e.epoch {
		e.flow -= int64(l.flow)
	}
	if e.facts.OnePrompt && len(l.chain) > 0 {
		t.replace(e, t.only(e))
		return
	}
	for _, chain := range l.prompts() {
		backed := t.index.Confirmed(l.slot, chain)
		for _, a := range e.coming.groups {
			if a.epoch == e.epoch {
				backed = a.prompts.common(&t.leases, chain, backed)
			}
		}
		t.index.Truncate(l.slot, chain, backed)
	}
}

// added notes that a lease's blocks have been entered at an endpoint whose blocks took before units.
func (t *Table) added(n uint32, e *endpoint, l *lease, before int, perByte float64) {
	t.grew(n, e, l, l.adds(), before, perByte)
	t.addResident(e, n, l, perByte)
}

// grew notes that a lease adds more new blocks to an endpoint whose blocks took before units of the index.
func (t *Table) grew(n uint32, e *endpoint, l *lease, more, before int, perByte float64) {
	e.coming.add(&t.leases, n)
	l.flow = more
	e.flow += int64(more)
	gone := float64(max(0, before+more-t.index.Units(l.slot))*fleet.BlockBytes) * perByte
	t.evicted.Move(fit.Usual, gone)
}

// isOf reports whether a conversation's last turn was computed with a model, as far as is known: no other finds its
// cache.
func isOf(e *session.Entry, model string) bool { return e.Model == "" || e.Model == model }

// goesOn notes what a lease goes on from at its endpoint.
func (t *Table) goesOn(name, model string, l *lease, e *endpoint, p *Prompt) {
	if g := &p.Entry; l.leg == fleet.LegUnsplit && p.Known && !p.Repeats && g.Endpoint == name && g.Epoch == e.epoch &&
		g.Prompt > 0 && isOf(g, model) {
		l.base, l.answer = g.Prompt, g.Tokens-g.Prompt
		l.since = t.since(e, p)
	}
}

// PeerRequest is a request that another router has placed.
type PeerRequest struct {
	Slot                       int
	Name, Model                string // of the endpoint, and what it serves there
	Leg                        fleet.Leg
	Turn                       bool // it has an answer
	First                      bool // it begins a conversation
	Placed                     time.Time
	PromptTokens, CachedTokens int      // as the other router estimates and predicts
	Bytes                      int      // canonical bytes of its prompt
	Chain                      []uint64 // the kept blocks of its prompt; empty when they are not known
	TokensPerByte              float64  // of prompts of the model, on average
	Context                    int      // of the model there, in tokens; 0 unknown

	Known   bool // Entry is known:
	Entry   session.Entry
	Repeats bool // it is its conversation's latest prompt, word for word
}

// AddPeerRequest is Open for a request that another router has placed. It looks at nothing but the endpoint that has
// it.
func (t *Table) AddPeerRequest(n uint32, h *PeerRequest) {
	l := t.leases.Grow(int(n))
	e := t.endpoints.Get(h.Slot)
	l.begin()
	l.slot, l.epoch, l.turn, l.leg = h.Slot, e.epoch, h.Turn, h.Leg
	l.first, l.placed = h.First, h.Placed
	l.promptTokens, l.cachedTokens = h.PromptTokens, h.CachedTokens
	t.Events.Open(n, h.Slot, "", "")
	if h.Turn && len(h.Chain) > 0 {
		l.chain, l.bytes = append(l.chain, h.Chain...), h.Bytes
		t.enterPeers(n, l, e, h)
	}
	p := Prompt{Known: h.Known, Entry: h.Entry, Repeats: h.Repeats}
	t.goesOn(h.Name, h.Model, l, e, &p)
}

// enterPeers is enter for another router's request.
func (t *Table) enterPeers(n uint32, l *lease, e *endpoint, h *PeerRequest) {
	if l.refused = e.refuses(h.PromptTokens, h.Context); l.refused {
		t.addResident(e, n, l, h.TokensPerByte)
		return
	}
	t.limit(e, h.TokensPerByte)
	before := t.index.Units(h.Slot)
	l.sure = t.index.Confirmed(h.Slot, l.chain)
	l.depth = len(l.chain) - t.expect(e, l.chain)
	l.counted = l.depth
	t.added(n, e, l, before, h.TokensPerByte)
}

// Chain is the blocks of a lease's prompt, until the next call, and its canonical bytes.
func (r Reader) Chain(n uint32) (names []uint64, bytes int) {
	l := r.t.leases.Get(int(n))
	return l.chain, l.bytes
}
