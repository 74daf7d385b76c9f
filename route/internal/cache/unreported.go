package cache

import (
	"time"

	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
)

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

// reported drops the prompts whose events have come: those computed before the poll at asked. An engine that pushes
// (asked is zero) does so before the first token.
func (r *unreported) reported(now, askedAt time.Time) {
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
