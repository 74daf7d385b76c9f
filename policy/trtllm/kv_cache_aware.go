package trtllm

import (
	"math"
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
	"github.com/warmpath/warmpath/slot"
)

// kvCacheAware is TensorRT-LLM's kv_cache_aware. The highest score wins, equals go by the counter of ties:
//
//	request_share: matched tokens / padded prompt tokens - active requests / max_batch_size   (PR 12526)
//	blocks:        matched blocks - load_weight × active requests                             (since June 2026)
//
// A prompt of n tokens has ceil((n-1) / tokens_per_block) blocks, since its last token is part of none, and is padded to whole
// blocks, one token at least. A last block that is not full counts as a whole one. With content affinity a
// conversation that has been placed stays, whatever the scores say, while its endpoint is a candidate below load_cap.
//
// What a server holds the original hears by polling KV cache events when a request ends there; here it is
// Candidate.CachedTokens, which follows events where engines send them and otherwise corrects itself by what they report. With
// track_routed_blocks what was answered in full counts too.
//
// Differences, each a defect there: what is tracked is bounded, to what the engine's cache holds where that is known, and forgotten
// when that is lost; the original's only grows. Where events do not come, it silently becomes least loaded. A
// block size that the engine reports holds for endpoints known before. What begins alike stays together within a tenant only, and
// a conversation that the client names is one by itself (content_affinity: messages has the published form).
type kvCacheAware struct {
	ties    ties
	shares  bool // score request_share
	block   int  // tokens; 0 asks the engine
	batch   float64
	weight  float64
	cap     float64       // +Inf for none
	placed  sent.Bindings // by content affinity
	keeps   string        // content affinity, never auto
	tracks  bool
	tracked sent.Tree
	epochs  slot.Table[uint32] // Candidate.Epoch of each, as tracked knows it
	chain   []uint64           // scratch
	open    []openPrompt
}

// openPrompt is a request that has not ended yet, by the low half of its lease.
type openPrompt struct {
	lease fleet.Lease
	key   uint64
	slot  int
	chain []uint64
}

const (
	longestPrompt = 1 << 15 // blocks of one prompt that are remembered, 4 MiB
	keptRoom      = 1 << 12 // blocks of room that are kept for the next request
)

// NewKVCacheAware makes the policy trtllm.kv_cache_aware with a configuration that has its defaults.
func NewKVCacheAware(o KVCacheAwareConfig) pick.Policy {
	p := &kvCacheAware{
		shares: o.Score == trtScoreShare, block: o.TokensPerBlock, batch: float64(o.MaxBatchSize), weight: floatOr(o.LoadWeight, trtLoadWeight),
		cap: o.LoadCap, keeps: o.affinity(), tracks: o.tracks(), tracked: sent.NewTree(sent.Unbounded), placed: sent.NewBindings(trtPlaced),
	}
	if p.cap == 0 {
		p.cap = math.Inf(1)
	}
	return p
}

// Pick implements pick.Policy.
func (p *kvCacheAware) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs := v.Candidates
	if p.tracks {
		p.fit(cs)
		p.chain = scoped(p.chain, r)
		p.tracked.Match(cs, p.chain)
	}
	below := func(c *pick.Candidate) bool { return fair.Outstanding(c)/p.batch < p.cap }
	room := false
	for i := range cs {
		room = room || below(&cs[i])
	}
	at := p.ties.least(cs, func(c *pick.Candidate) float64 {
		if room && !below(c) {
			return math.Inf(1)
		}
		return -p.score(v, r, c)
	})
	reason := reasons.Score
	if key := p.keptBy(v, r); key != 0 {
		if home, known := p.placed.Get(key); known {
			i := slices.IndexFunc(cs, func(c pick.Candidate) bool { return c.Key == home })
			if i >= 0 && (!room || below(&cs[i])) {
				at, reason = i, pick.ReasonSession
			}
		}
		p.placed.Put(key, cs[at].Key)
	}
	return pick.Choice{Index: at, Reason: reason}
}

// score is the formula; the conversions keep products from being fused with what follows.
func (p *kvCacheAware) score(v *pick.View, r *fleet.Request, c *pick.Candidate) float64 {
	size := p.block
	if size == 0 {
		size = c.BlockTokens
	}
	if size <= 0 {
		size = trtTokensPerBlock
	}
	whole := blocks(v.PromptTokens, size)
	cached := c.CachedTokens
	if n := content.Bytes(r); p.tracks && n > 0 {
		cached = max(cached, int(int64(v.PromptTokens)*int64(p.tracked.Depth(c)*fleet.BlockBytes)/int64(n)))
	}
	matched := min(cached/size, whole)
	if cached >= v.PromptTokens-1 {
		matched = whole // the last block is there too, full or not
	}
	if p.shares {
		return float64(float64(matched*size)/float64(max(1, whole*size))) - float64(fair.Outstanding(c)/p.batch)
	}
	return float64(matched) - float64(p.weight*fair.Outstanding(c))
}

// blocks is how many blocks of a size so many tokens have: the last token is part of none.
func blocks(tokens, size int) int {
	if tokens < 2 {
		return 0
	}
	return (tokens - 1 + size - 1) / size
}

// keptBy names what content affinity goes by; 0 for nothing.
func (p *kvCacheAware) keptBy(v *pick.View, r *fleet.Request) uint64 {
	switch {
	case p.keeps == trtAffinityOff:
		return 0
	case p.keeps == trtAffinityOn && r.Session != "":
		return v.Hash
	case r.Content == nil || r.Content.Start == 0:
		return 0
	case p.keeps == trtAffinityMessage:
		return r.Content.Start
	}
	return byhash.Mix(r.Content.Start ^ hashText(r.Tenant))
}

// fit forgets what endpoints have lost and bounds what is tracked of them.
func (p *kvCacheAware) fit(cs []pick.Candidate) {
	for i := range cs {
		c := &cs[i]
		if epoch := p.epochs.At(c.Slot, c.Key); *epoch != c.Epoch {
			*epoch = c.Epoch
			p.tracked.Forget(c)
		}
		bound := sent.Unbounded
		if c.CacheTokens > 0 {
			bound = int(min(c.CacheTokens*content.BytesPerToken/fleet.BlockBytes, sent.Unbounded))
		}
		p.tracked.Bound(c, bound)
	}
}

// Reserved implements pick.Keeping: it keeps the request's blocks until its end.
func (p *kvCacheAware) Reserved(l fleet.Lease, c *pick.Candidate, _ *pick.View, r *fleet.Request) {
	if !p.tracks || r.Class != fleet.Turn || len(content.Blocks(r)) == 0 {
		return
	}
	p.chain = scoped(p.chain, r)
	i := int(uint32(l))
	for len(p.open) <= i {
		p.open = append(p.open, openPrompt{})
	}
	o := &p.open[i]
	o.lease, o.key, o.slot = l, c.Key, c.Slot
	o.chain = append(o.chain[:0], p.chain...)
}

// Released implements pick.Keeping: what was answered in full is cached there.
func (p *kvCacheAware) Released(l fleet.Lease, answered bool) {
	i := int(uint32(l))
	if i >= len(p.open) || p.open[i].lease != l {
		return
	}
	o := &p.open[i]
	if answered {
		p.tracked.Enter(o.slot, o.key, o.chain)
	}
	if o.lease, o.chain = 0, o.chain[:0]; cap(o.chain) > keptRoom {
		o.chain = nil
	}
}

// scoped is the blocks of a prompt, the first longestPrompt, with what else a cache depends on: the tenant and the prompt's scope.
func scoped(to []uint64, r *fleet.Request) []uint64 {
	to = to[:0]
	blocks := content.Blocks(r)
	if len(blocks) == 0 {
		return to
	}
	scope := r.Content.Scope ^ hashText(r.Tenant)
	for _, b := range blocks[:min(len(blocks), longestPrompt)] {
		to = append(to, byhash.Mix(b^scope)|1) // 0 names no block
	}
	return to
}
