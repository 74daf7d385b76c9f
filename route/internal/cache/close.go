package cache

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
)

// Computed records that a lease's prompt is computed.
func (t *Table) Computed(now time.Time, n uint32) {
	l := t.leases.Get(int(n))
	e := t.endpoints.Get(l.slot)
	l.done = true
	e.coming.remove(&t.leases, n)
	if l.epoch == e.epoch {
		t.confirm(l, e)
	}
	t.computed(now, l, e)
}

// confirm notes that what is left of a lease's prompts is computed. It does not count as a use: engines evict blocks,
// oldest first, when the request is over.
func (t *Table) confirm(l *lease, e *endpoint) {
	for _, chain := range l.prompts() {
		if e.facts.OnePrompt || l.refused {
			t.add(e, chain)
		} else {
			t.index.Confirm(l.slot, chain)
		}
	}
}

// computed remembers a prompt whose KV events are still to come.
func (t *Table) computed(now time.Time, l *lease, e *endpoint) {
	if !t.Events.Trusted(l.slot) {
		return
	}
	for _, chain := range l.prompts() {
		e.unreported.add(now, chain)
	}
}

// Ended is how a request ended.
type Ended struct {
	Lease       fleet.Lease
	Outcome     fleet.Outcome
	Usage       *fleet.Usage
	Sent        bool         // it was sent to the engine
	Splits      bool         // requests for its model may be split
	AnswerReuse *AnswerReuse // of its model; learns
}

// Close ends a lease, in this order: its blocks are no longer in use, and no longer pending; the reported cached tokens
// correct the estimate; they correct the trust in events, and the over-prediction of full caches. news is what changed
// about the endpoint's events.
func (t *Table) Close(now time.Time, f *Ended) (news []string) {
	n := uint32(f.Lease)
	l := t.leases.Get(int(n))
	e := t.endpoints.Get(l.slot)
	first := t.removeResident(e, n, l)
	if !l.done {
		e.coming.remove(&t.leases, n)
		if f.Sent && f.Outcome == fleet.OK {
			t.computed(now, l, e)
		}
	}
	t.endPrompts(l, e, f, first)
	t.learnCached(l, e, f)
	if f.Outcome == fleet.OK && l.turn {
		news = t.Events.Settle(now, &reported.Finished{
			Lease: f.Lease, Chain: l.chain, Depth: l.depth, BlockTokens: e.facts.BlockTokens,
			SameCache: l.epoch == e.epoch, Usage: f.Usage,
		})
	}
	if f.Outcome == fleet.OK && f.Splits && l.list.none() {
		e.learnOverprediction(l, f.Usage)
	}
	t.Events.Close(n)
	if cap(l.chain) > bound.Many { // more than the next lease is likely to need
		l.chain = nil
	}
	if cap(l.list.names) > bound.Many {
		l.list.names = nil
	}
	return news
}

// endPrompts corrects the estimate when a request is over: its prompts were computed, or what it alone was to bring
// is not there. first reports that no other outstanding request was placed before it.
func (t *Table) endPrompts(l *lease, e *endpoint, f *Ended, first bool) {
	switch {
	case l.done && e.facts.OnePrompt:
		// what was computed since has taken its place
	case f.Outcome == fleet.OK || l.done && l.epoch == e.epoch:
		for _, chain := range l.prompts() {
			t.add(e, chain)
		}
		t.touchInUse(e)
	default:
		if first && f.Sent && !refused(f.Outcome) && e.facts.OnePrompt && len(l.chain) > 0 {
			e.last = e.last[:blocks.Common(e.last, l.chain)] // it gave up the rest for this one
		}
		t.takeBack(l, e)
	}
}

// refused reports whether an engine has not begun to compute a request that ended so.
func refused(o fleet.Outcome) bool {
	return o == fleet.Busy || o == fleet.ClientError || o == fleet.ConnectFailed
}

// learnCached learns from the reported cached tokens, beside the predicted ones.
func (t *Table) learnCached(l *lease, e *endpoint, f *Ended) {
	if !l.list.none() {
		return
	}
	u := f.Usage
	if f.Outcome != fleet.OK || !u.CachedKnown || u.PromptTokens <= 0 || l.epoch != e.epoch {
		return // with another epoch the predicted cache is gone
	}
	e.reuses = e.reuses || u.CachedTokens > 0 // a connector may have it beside the engine
	l.learnAnswer(f.AnswerReuse, e.grain.slack(e.facts.BlockTokens), u)
	if l.exact && t.Events.Trusted(l.slot) {
		return // the prediction came from events, not from this estimate
	}
	predicted, found := l.cachedTokens, u.CachedTokens
	if l.sure < l.counted {
		predicted = min(predicted, int(int64(predicted)*int64(l.sure)/int64(l.counted)))
	}
	e.grain.learn(predicted, found, e.facts.BlockTokens)
	e.keeps.learn(l, found)
	if !t.without.Has(ablation.Capacity) {
		t.learnCapacity(l, e, predicted, u)
	}
}
