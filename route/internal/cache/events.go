package cache

import (
	"time"

	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
)

// Apply applies a batch of an endpoint's KV events. news is what changed about its events. requests is the number
// outstanding there; asked is when the engine was polled, zero for one that pushes.
func (t *Table) Apply(now time.Time, slot, requests int, b *reported.Batch, asked time.Time) (news []string) {
	e := t.endpoints.Get(slot)
	only := uint64(0) // conversation of the only request that can have caused these blocks
	if len(e.coming.leases) == 1 && requests == 1 {
		only = t.reported.Conversation(e.coming.leases[0])
	}
	cleared, news := t.reported.Apply(slot, b, only)
	for range cleared {
		t.empty(e)
	}
	e.unreported.reported(now, asked)
	return news
}

// SetStreamState sets the state of an endpoint's event stream. changed reports whether it is new.
func (t *Table) SetStreamState(slot int, state kvstream.State) (changed bool) {
	return t.reported.SetStreamState(slot, state)
}

// VoidEvents forgets what an endpoint's events have reported.
func (t *Table) VoidEvents(slot int) { t.reported.Void(slot) }

// Tick detects that an endpoint's events have stopped; silent is true once, when they have.
func (t *Table) Tick(now time.Time, slot int) (silent bool) { return t.reported.Tick(now, slot) }

// Tokens adds the token ids of a request's prompt. news is what changed about the events of the endpoint at slot.
func (t *Table) Tokens(ids *reported.TokenIDs) (slot int, news []string) {
	block := 0
	if ids.Open {
		block = t.endpoints.Get(t.leases.Get(int(uint32(ids.Lease))).slot).facts.BlockTokens
	}
	return t.reported.Tokens(ids, block)
}
