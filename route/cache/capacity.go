package cache

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/blocks"
)

// capacity is how much one cache proves to hold.
type capacity struct {
	bound int      // blocks that what is believed to be there is bounded by
	told  int      // blocks that the capacity which the engine states, or the default, is
	ratio fit.Mean // tokens of its prompts by canonical byte, of late
	share float64  // of the capacity that it states, or of the default: what proves to be there
}

// What is assumed of a cache of which nothing is known yet.
const (
	firstShare    = 0.95    // of the capacity that its engine states: answers and half-filled blocks take room too
	defaultTokens = 500_000 // capacity of an engine that states none: an H100 with an 8B model in FP8 has about so many
)

const (
	leastShare   = 0.05    // the cache of an engine is never believed to be smaller than that
	shareDown    = 0.98    // each time something believed was not there
	shareUp      = 1.02    // each time something was there that was believed to be evicted
	unstatedMost = 4.0     // bound of share where no capacity is stated
	mostShare    = 16.0    // and where host memory or disks proved to keep what the memory beside the GPU evicts (LMCache, HiCache, vLLM's offloading)
	beyond       = 1.25    // of the capacity stated: a conversation that so much was put in since has not been kept in that
	shareBeyond  = 0.5     // of the way to what it proves, for each of these
	ratioRate    = 0.1     // weight of a prompt in capacity.ratio
	mostBlocks   = 1 << 18 // that an endpoint is believed to hold, whatever it states: eight million tokens of English
)

// Bounds of what a prompt teaches about the tokens of a text.
const (
	leastTokensPerByte = 0.1 // no text has fewer
	leastRatioBytes    = 512 // of a shorter prompt the chat template is too large a part
)

// statedTokens is the capacity that the engine states, or what stands for it.
func (r Reader) statedTokens(slot int) int64 {
	tokens := r.t.endpoints.Get(slot).facts.CacheTokens
	if tokens <= 0 {
		tokens = r.t.reported.Reader().Capacity(slot)
	}
	if tokens <= 0 {
		tokens = defaultTokens
	}
	return tokens
}

// provenTokens is what the cache is taken to hold.
func (r Reader) provenTokens(slot int) int64 {
	return int64(float64(float64(r.statedTokens(slot)) * r.t.endpoints.Get(slot).capacity.share))
}

// full reports whether a cache is believed to have no more room than a part of what it holds.
func (r Reader) full(slot, part int) bool {
	bound := r.t.endpoints.Get(slot).capacity.bound
	return bound > 0 && r.t.index.Units(slot) >= bound-bound/part
}

// limit sets how many blocks an endpoint is believed to hold at most. perByte is the tokens a byte of the model's prompts.
func (t *Table) limit(slot int, e *endpoint, perByte float64) {
	s := &e.capacity
	if s.share == 0 {
		s.share = firstShare
	}
	ratio := float64(s.ratio) // not the model's: several may share the endpoint, and what they hold must not depend on who came last
	if ratio == 0 {
		ratio = perByte
	}
	told := float64(t.Reader().statedTokens(slot)) / float64(max(ratio, leastTokensPerByte)*fleet.BlockBytes)
	bound := min(int(float64(told*s.share)), mostBlocks)
	s.told = int(told)
	// Small changes of the ratio are no reason to evict.
	if d := bound - s.bound; d > s.bound/64 || -d > s.bound/64 {
		s.bound = bound
		t.index.SetCapacity(slot, bound)
	}
}

// learnRatio takes in how many tokens a prompt had.
func (s *capacity) learnRatio(promptTokens, bytes int) {
	if promptTokens <= 0 || bytes < leastRatioBytes {
		return
	}
	sample := min(max(float64(promptTokens)/float64(bytes), leastTokensPerByte), 2)
	s.ratio.Add(ratioRate, sample)
}

// compare corrects the share by what was predicted of a prompt and what was found. full says that there was no room for more: as long
// as there was, nothing is learnt about where the cache ends.
func (s *capacity) compare(predicted, found, slack int, missed, full, stated bool) {
	switch {
	case missed && (full || s.share > 1):
		s.share = max(leastShare, float64(s.share*shareDown))
	case full && found > predicted+slack:
		most := 1.0
		if !stated {
			most = unstatedMost
		}
		s.share = max(s.share, min(most, float64(s.share*shareUp)))
	}
}

// outlasted notices that a conversation was found again, nearly all of it, of which the stated capacity can have kept nothing: there is
// a second tier behind it, of at least what was computed since. A conversation that such a tier was to keep and that is missing shows
// that there is less. Other prompts prove nothing, since they may have texts in common with some that nobody knows of.
func (s *capacity) outlasted(l *lease, found, slack int) {
	if l.base == 0 || s.told == 0 {
		return
	}
	kept := float64(l.since) / float64(s.told)
	switch {
	case 8*found >= 7*l.base && found > l.cachedTokens+slack && kept > max(beyond, s.share):
		s.share += float64(shareBeyond * (min(kept, mostShare) - s.share))
	case 8*found < l.base && s.share > max(kept, 1):
		s.share += float64(shareBeyond * (max(kept, 1) - s.share))
	}
}

// flowSince is how many blocks were put into the cache since the conversation's last turn there.
func (e *endpoint) flowSince(p *Prompt) int { return int(int32(uint32(e.flow) - p.Entry.Flow)) }

// since is how many blocks an engine has computed since a conversation's last turn there. What still waits is no part of it: the turn
// may go before that. So few that outlasted makes nothing of them are not looked into.
func (t *Table) since(e *endpoint, p *Prompt) int {
	flow := e.flowSince(p)
	if e.capacity.share <= 1 && float64(flow) <= beyond*float64(e.capacity.told) {
		return flow
	}
	for _, n := range e.pending {
		l := t.leases.Get(int(n))
		flow -= blocks.Reach(len(l.chain)) - blocks.Reach(l.depth)
	}
	return flow
}

// goesOnRecently reports whether a prompt goes on from a turn so recent that nothing of it can have been evicted: much less than the cache
// holds was put in since, and most of it is not in use. context is the tokens of outstanding requests.
func (r Reader) goesOnRecently(slot int, name string, p *Prompt, context int64) bool {
	e := r.t.endpoints.Get(slot)
	if !p.Known || p.Entry.Endpoint != name || p.Entry.Epoch != e.epoch {
		return false
	}
	return e.flowSince(p) < min(e.capacity.bound, e.capacity.told)/4 && 2*context < min(r.provenTokens(slot), r.statedTokens(slot))
}
