package cache

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/size"
)

// capacity is the learnt capacity of one cache.
type capacity struct {
	bound        int     // blocks: stated × share
	statedBlocks int     // blocks: the stated capacity, or the default
	share        float64 // learnt capacity as a share of the stated one
}

// Defaults.
const (
	firstShare    = 0.95    // of the stated capacity: answers and half-filled blocks take room too
	defaultTokens = 500_000 // capacity where none is stated: about that of an H100 with an 8B model in FP8
)

const mostBlocks = 1 << 18 // upper bound of bound: eight million tokens of English

// A cache counts as full while less of it is free than one part in this number.
const (
	fullForMisses = 64 // where the router asks what of a prediction may be evicted
	nearlyFull    = 8  // elsewhere, as where an answer teaches the cache's size
)

// statedTokens is the capacity that the engine states, else its events' largest content, else the default.
func (r Reader) statedTokens(slot int) int64 {
	tokens := r.t.endpoints.Get(slot).facts.CacheTokens
	if tokens <= 0 {
		tokens = r.t.Events.Capacity(slot)
	}
	if tokens <= 0 {
		tokens = defaultTokens
	}
	return tokens
}

// blocksOf is how many blocks the tokens make. perByte is the tokens per byte of the model's prompts.
func blocksOf(tokens int64, perByte float64) float64 {
	return float64(tokens) / float64(perByte*fleet.BlockBytes)
}

// Blocks is how many blocks a cache of that many tokens, 0 for unknown, holds before answers have told more.
func Blocks(tokens int64, perByte float64) int {
	if tokens <= 0 {
		tokens = defaultTokens
	}
	return min(int(firstShare*blocksOf(tokens, perByte)), mostBlocks)
}

// Differs reports whether a bound differs from an earlier one by enough: small changes of the ratio are no reason to
// evict.
func Differs(bound, was int) bool { return max(bound-was, was-bound) > was/64 }

// full reports whether less than 1/part of the estimated capacity is free.
func (r Reader) full(slot, part int) bool {
	bound := r.t.endpoints.Get(slot).capacity.bound
	return bound > 0 && r.t.index.Units(slot) >= bound-bound/part
}

// limit updates the bound of an endpoint's blocks. perByte is the tokens per byte of the model's prompts.
func (t *Table) limit(e *endpoint, perByte float64) {
	s := &e.capacity
	if s.share == 0 {
		s.share = firstShare
	}
	stated := blocksOf(t.statedTokens(e.slot), perByte)
	bound := min(int(float64(stated*s.share)), mostBlocks)
	s.statedBlocks = int(stated)
	if Differs(bound, s.bound) {
		s.bound = bound
		t.index.SetCapacity(e.slot, bound)
	}
	if !t.tiered(e.slot) {
		return
	}
	if t.near == nil {
		t.near = newIndex()
	}
	if near := min(s.statedBlocks, mostBlocks); Differs(near, t.near.Capacity(e.slot)) {
		t.near.SetCapacity(e.slot, near)
	}
}

// tiered reports whether an engine's events tell of a second tier beside the memory whose size it states.
func (r Reader) tiered(slot int) bool {
	return r.t.endpoints.Get(slot).facts.CacheTokens > 0 && r.t.Events.Tiers(slot)
}

// learnCapacity corrects the capacity by what a request found, of the tokens predicted to be cached. Only a full cache
// teaches where it ends.
func (t *Table) learnCapacity(l *lease, e *endpoint, predicted int, u *fleet.Usage) {
	s, found, most := &e.capacity, u.CachedTokens, 1.0
	if e.facts.CacheTokens <= 0 {
		most = fit.Bound // the engine may have more than is assumed
	}
	full := t.full(l.slot, nearlyFull)
	slack := e.grain.slack(e.facts.BlockTokens) + u.PromptTokens/50
	// an answer that the client leaves out is not missing
	missed := found+slack < min(predicted, size.Part(u.PromptTokens, blocks.Bytes(l.depth), l.bytes))
	switch {
	case missed && (full || s.share > 1):
		s.share = max(1.0/fit.Bound, float64(s.share*(1-fit.Slow)))
	case full && found > predicted+slack:
		s.share = max(s.share, min(most, float64(s.share*(1+fit.Slow))))
	}
	s.detectSecondTier(l, found, slack)
}

// detectSecondTier detects a second cache tier: most of a conversation was found although more was computed since than
// the stated capacity holds. A conversation that the tier should have kept and that is missing lowers share again. Only
// conversations count, because other prompts may share text with requests that the router has not seen.
func (s *capacity) detectSecondTier(l *lease, found, slack int) {
	if l.base == 0 || s.statedBlocks == 0 {
		return
	}
	kept := float64(l.since) / float64(s.statedBlocks)
	switch {
	case l.isWhole(found) && found > l.cachedTokens+slack && kept > max(1, s.share):
		s.share += (min(kept, fit.Bound) - s.share) / 2
	case 8*found < l.base && s.share > max(kept, 1):
		s.share += (max(kept, 1) - s.share) / 2
	}
}

// isWhole reports whether the tokens found are seven eighths of the conversation's previous prompt or more.
func (l *lease) isWhole(found int) bool { return 8*found >= 7*l.base }

// keeps learns whether a cache keeps what it is believed to have evicted, as one with a second tier does.
type keeps struct {
	whole, n fit.Sum // of conversations that had less than half predicted: those that were found whole, and all
}

// learn takes in how many tokens were found for a lease.
func (k *keeps) learn(l *lease, found int) {
	if l.base == 0 || 2*l.cachedTokens >= l.base {
		return
	}
	whole := 0.0
	if l.isWhole(found) {
		whole = 1
	}
	k.whole.Add(1-fit.Usual, 1, whole)
	k.n.Add(1-fit.Usual, 1, 1)
}

// more reports whether it keeps more of these than not.
func (k *keeps) more() bool { return 2*k.whole > k.n+fit.Enough }

// since is the blocks computed since the conversation's last turn there, without pending blocks, because the turn may
// overtake them. Where detectSecondTier cannot use it, pending blocks are not subtracted.
func (t *Table) since(e *endpoint, p *Prompt) int {
	flow := int(int32(uint32(e.flow) - p.Entry.Flow))
	if e.capacity.share <= 1 && flow <= e.capacity.statedBlocks {
		return flow
	}
	return flow - e.coming.blocks
}
