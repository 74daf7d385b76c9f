package cache

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/session"
)

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
