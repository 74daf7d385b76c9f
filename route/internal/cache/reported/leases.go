package reported

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
)

// lease is what is kept of a placed request.
type lease struct {
	slot            int
	tenant, session string

	known   bool   // the events said something of its prompt when it was placed, trusted or not
	said    int    // tokens of it that are cached, by the events
	guess   bool   // said counts on the last answer coming back as it was made
	runs    int    // runs of blocks that had been noted
	stored  uint64 // blocks that the endpoint had stored
	tokens  int    // of its prompt, as they were listed; 0 while they were not
	adapter bool   // it asks for one, which its blocks depend on too
}

// Open begins the row of a lease: a request of a conversation that was placed at an endpoint.
func (t *Table) Open(n uint32, slot int, tenant, session string) {
	*t.leases.Grow(int(n)) = lease{slot: slot, tenant: tenant, session: session}
}

// Note keeps with a lease what events say of its prompt.
func (t *Table) Note(n uint32, c *Chain, ids *IDs, promptTokens int, adapter bool) {
	l := t.leases.Get(int(n))
	l.stored, l.runs, l.adapter = t.endpoints.Get(l.slot).stored, t.runs.Count(), adapter
	if t.any {
		t.label(l.tenant, l.session)
	}
	if !t.any || !c.Known {
		return
	}
	if tokens, whole, ok := t.ByIDs(l.slot, ids, promptTokens); ok && !adapter {
		l.known, l.said = whole, tokens
	} else if tokens, ok := t.ByChain(l.slot, c, promptTokens); ok {
		l.known, l.said = true, tokens
		l.guess = c.limit > 0 && tokens > c.limit
	}
}

// Conversation names the conversation of a lease; 0 is none.
func (r Reader) Conversation(n uint32) uint64 {
	l := r.t.leases.Get(int(n))
	if l.session == "" {
		return 0
	}
	return Conversation(l.tenant, l.session)
}

// TokenIDs are the tokens of a request's prompt, as the engine's tokenizer gives them.
type TokenIDs struct {
	Lease  fleet.Lease
	Open   bool // the lease has not ended
	Tokens []uint32
	Salt   string // kvstream.Event.Salt and kvstream.Event.Extra of the prompt's first block, see kvstream.Names
	Extra  uint64
}

// Tokens binds a request's conversation to the blocks that its tokens make. The request may have ended. reported is how
// many tokens a block has by the endpoint's own report, 0 unknown. news is what changed about the events of the
// endpoint at slot.
func (t *Table) Tokens(ids *TokenIDs, reported int) (slot int, news []string) {
	if !t.any || len(ids.Tokens) == 0 {
		return 0, nil
	}
	t.tokens = true
	if n := int(uint32(ids.Lease)); ids.Open && t.leases.Get(n).session != "" {
		l := t.leases.Get(n)
		e := t.endpoints.Get(l.slot)
		if l.adapter {
			return 0, nil // tokens do not say by what number or name the engine's events call it
		}
		if l.tokens = len(ids.Tokens); !e.foreign { // else they are only counted, when the answer has ended
			t.bindTokens(ids, Conversation(l.tenant, l.session), cmp.Or(e.block, reported))
		}
		return 0, nil
	}
	end := t.finished.find(ids.Lease)
	if end == nil || end.adapter {
		return 0, nil
	}
	ok, news := t.agree(end, len(ids.Tokens))
	if ok && t.bindTokens(ids, end.key, end.block) {
		end.bound = true
		t.learn(end)
	}
	return end.slot, news
}

// bindTokens binds a conversation to the blocks of a prompt, and to those that go on from them; ok is false when there
// are none.
func (t *Table) bindTokens(ids *TokenIDs, key uint64, block int) (ok bool) {
	names := kvstream.Names(ids.Tokens, block, ids.Salt, ids.Extra, t.chain[:0])
	t.chain = names
	if len(names) == 0 {
		return false
	}
	x := t.bindings.make(key)
	if len(x.chain) < len(names) || !slices.Equal(x.chain[:len(names)], names) {
		t.bindings.set(x, 0, names)
	}
	for more := t.loose.takeContinuation(x.chain); more != nil; more = t.loose.takeContinuation(x.chain) {
		t.bindings.set(x, len(x.chain), more)
	}
	t.recordTailOwner(x)
	return true
}

// agree is endpoint.agree for a request that has ended. Of an endpoint that has left since, only its own count is
// compared.
func (t *Table) agree(end *request, listed int) (ok bool, news []string) {
	if e := t.endpoints.Get(end.slot); e.born == end.born {
		return e.agree(listed, end.usage.PromptTokens, nil)
	}
	return listed == end.usage.PromptTokens, nil
}

// Finished is a request that was answered in full.
type Finished struct {
	Lease       fleet.Lease
	Chain       []uint64 // the router's own blocks of its prompt
	Depth       int      // of these, how many were believed to be cached
	BlockTokens int      // by the endpoint's report, 0 unknown
	SameCache   bool     // the endpoint's cache was not lost since the request was placed
	Usage       *fleet.Usage
}

// Settle draws the conclusions of an answer about its endpoint's events: whether they agree with it, whether some are
// missing, and whose the blocks are that they reported. It returns what changed about the events.
func (t *Table) Settle(now time.Time, f *Finished) (news []string) {
	if !t.any {
		return nil
	}
	l := t.leases.Get(int(uint32(f.Lease)))
	e := t.endpoints.Get(l.slot)
	news = e.compare(l, f)
	e.expect(now, l, f)
	u := f.Usage
	x := request{lease: f.Lease, block: cmp.Or(e.block, f.BlockTokens), usage: *u}
	if x.block <= 0 || len(f.Chain) == 0 || l.session == "" || u.PromptTokens <= 0 {
		return news
	}
	x.key, x.ends, x.reach = Conversation(l.tenant, l.session), f.Chain[len(f.Chain)-1], len(f.Chain)
	// what is found far beyond the text that earlier prompts had is of this conversation, from before a restart of the
	// router or by way of another one: it does not show where they part
	part := u.PromptTokens * f.Depth / len(f.Chain)
	if f.Depth > 0 && f.Depth < len(f.Chain) && u.CachedTokens <= part+part/4+2*x.block {
		x.shared = f.Chain[f.Depth-1]
	}
	x.adapter, x.slot, x.born, x.since = l.adapter, l.slot, e.born, l.runs
	if l.tokens > 0 {
		ok := false
		if ok, news = e.agree(l.tokens, u.PromptTokens, news); !ok && t.bindings.byKey[x.key] != nil {
			t.bindings.drop(t.bindings.byKey[x.key])
		}
	}
	if t.bindings.get(x.key) != nil {
		t.learn(&x)
	}
	t.matchRun(&x)
	*t.finished.Next(mostRuns) = x
	return news
}

// Close empties the row of a lease.
func (t *Table) Close(n uint32) { *t.leases.Get(int(n)) = lease{} }
