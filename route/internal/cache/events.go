package cache

import (
	"time"

	"github.com/warmpath/warmpath/route/internal/cache/reported"
)

// Apply applies a batch of an endpoint's KV events. news is what changed about its events. requests is the number
// outstanding there; asked is when the engine was polled, zero for one that pushes.
func (t *Table) Apply(now time.Time, slot, requests int, b *reported.Batch, asked time.Time) (news []string) {
	e := t.endpoints.Get(slot)
	only := uint64(0) // conversation of the only request that can have caused these blocks
	if len(e.coming.leases) == 1 && requests == 1 {
		only = t.Events.Conversation(e.coming.leases[0])
	}
	cleared, news := t.Events.Apply(slot, b, only)
	for range cleared {
		t.empty(e)
	}
	e.unreported.reported(now, asked)
	return news
}

// Tokens adds the token ids of a request's prompt. news is what changed about the events of the endpoint at slot.
func (t *Table) Tokens(ids *reported.TokenIDs) (slot int, news []string) {
	block := 0
	if ids.Open {
		block = t.endpoints.Get(t.leases.Get(int(uint32(ids.Lease))).slot).facts.BlockTokens
	}
	return t.Events.Tokens(ids, block)
}
