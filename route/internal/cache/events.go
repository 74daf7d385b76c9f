package cache

import (
	"time"

	"github.com/warmpath/warmpath/route/internal/bound"
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
	e.unreported.drop(now, asked)
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

// unreported keeps the prompts that an endpoint has just computed and whose KV events are still to come: within moments
// from an engine that pushes, at the next poll otherwise.
type unreported struct{ bound.Ring[prompt] }

type prompt struct {
	chain []uint64 // the router's own block names
	at    time.Time
}

// add adds a prompt. Of one endpoint the newest bound.Few are kept.
func (r *unreported) add(now time.Time, chain []uint64) {
	u := r.Next(bound.Few)
	if cap(u.chain) > bound.Many {
		u.chain = nil
	}
	u.chain, u.at = append(u.chain[:0], chain...), now
}

// drop drops the prompts whose events have come: those computed before the poll at asked. An engine that pushes
// (asked is zero) does so before the first token.
func (r *unreported) drop(now, askedAt time.Time) {
	if askedAt.IsZero() {
		askedAt = now
	}
	for i := range r.All() {
		if u := &r.All()[i]; !u.at.After(askedAt) {
			u.chain = u.chain[:0]
		}
	}
}

// common is the longest prefix, in blocks, that a prompt shares with one of them, or n where that is larger.
func (r *unreported) common(now time.Time, keys []uint64, n int) int {
	for i := range r.All() {
		if u := &r.All()[i]; now.Sub(u.at) < reported.Overdue {
			n = commonBeyond(keys, u.chain, n)
		}
	}
	return n
}
