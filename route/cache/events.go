package cache

import (
	"time"

	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route/cache/reported"
)

// Apply takes in what an endpoint's event stream brought. news is what changed about its events. requests is how many are
// outstanding there; asked is when the engine was asked for the events, zero of one that reports by itself.
func (t *Table) Apply(now time.Time, slot, requests int, b *reported.Batch, asked time.Time) (news []string) {
	e := t.endpoints.Get(slot)
	only := uint64(0) // the conversation of the one request that can have caused blocks without a label
	if len(e.pending) == 1 && requests == 1 {
		only = t.reported.Reader().Conversation(e.pending[0])
	}
	cleared, news := t.reported.Apply(slot, b, only)
	for range cleared {
		t.index.Clear(slot)
		t.renew(e)
	}
	e.unreported.reported(now, asked)
	return news
}

// Heard takes in the state of an endpoint's event stream: with lost, what it reported before is void; with restart, the engine has
// started anew. changed is false when the state is what it was.
func (t *Table) Heard(slot int, state kvstream.State, lost, restart bool) (changed bool) {
	if restart {
		t.restarted(slot)
	}
	return t.reported.Heard(slot, state, lost || restart)
}

// Tick notices that an endpoint's events have stopped. It reports whether they are silent from now on.
func (t *Table) Tick(now time.Time, slot int) (silent bool) { return t.reported.Tick(now, slot) }

// Tokens takes in the token ids of a request's prompt. news is what changed about the events of the endpoint at slot.
func (t *Table) Tokens(ids *reported.TokenIDs) (slot int, news []string) {
	block := 0
	if ids.Open {
		block = t.endpoints.Get(t.leases.Get(int(uint32(ids.Lease))).slot).facts.BlockTokens
	}
	return t.reported.Tokens(ids, block)
}
