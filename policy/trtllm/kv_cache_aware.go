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

// kvCacheAware is TensorRT-LLM's kv_cache_aware. The highest score wins, ties use the counter of ties:
//
//	request_share: matched tokens / padded prompt tokens - active requests / max_batch_size   (PR 12526)
//	blocks:        matched blocks - load_weight × active requests                             (since June 2026)
//
// A prompt of n tokens has ceil((n-1) / tokens_per_block) blocks, since its last token belongs to none, and is padded
// to whole blocks, at least one token. A partial last block counts as a whole one. With content affinity a placed
// conversation stays, whatever the scores, while its endpoint is a candidate below load_cap.
//
// The original learns a server's cache contents by polling KV cache events at the end of each request; here it is
// Candidate.CachedTokens, which follows events where engines send them and is otherwise corrected by usage. With
// track_routed_blocks prompts answered in full count too.
//
// Differences, each a defect of the original: tracked blocks are limited to the capacity of the engine's cache where
// that is known, and forgotten when the cache is lost; the original only adds. Without events it silently becomes least
// loaded. A block size reported later also applies to endpoints known before. Conversations that begin alike stay
// together within a tenant only, and a conversation named by the client is separate (content_affinity: messages has the
// published form).
//
// Of several prompts in one request blocks and matches are added up; matches of the first fleet.MaxListed prompts only.
type kvCacheAware struct {
	pick.Plain
	ties    ties
	shares  bool // score request_share
	block   int  // tokens; 0 uses the engine's report
	batch   float64
	weight  float64
	cap     float64       // +Inf for no cap
	homes   sent.Bindings // by content affinity
	keeps   string        // content affinity, auto resolved
	tracks  bool
	tracked sent.Tree
	epochs  slot.Table[uint32] // Candidate.Epoch of each when its blocks were tracked
	chain   []uint64           // scratch
	found   []found            // scratch: by index of the candidates
	open    []openPrompt
}

// found is the number of a request's blocks, in a candidate's block size, and of those that match there.
type found struct{ whole, matched int }

// openPrompt is a running request, by the low half of its lease.
type openPrompt struct {
	lease fleet.Lease
	key   uint64
	slot  int
	chain []uint64 // of all its prompts, one after the other
	ends  []int    // where each ends in it
}

const (
	longestPrompt = 1 << 15 // blocks remembered per prompt, 4 MiB
	keptRoom      = 1 << 12 // capacity in blocks kept for reuse
)

// NewKVCacheAware makes trtllm.kv_cache_aware. The configuration must have its defaults.
func NewKVCacheAware(o KVCacheAwareConfig) pick.Policy {
	p := &kvCacheAware{
		Plain:  pick.Plain{Name: "trtllm.kv_cache_aware", Exact: true, Content: true, WhenOnly: true},
		shares: o.Score == scoreShare, block: o.TokensPerBlock, batch: float64(o.MaxBatchSize),
		weight: floatOr(o.LoadWeight, defaultLoadWeight), cap: o.LoadCap, keeps: o.affinity(), tracks: o.tracks(),
		tracked: sent.NewTree(sent.Unbounded), homes: sent.NewBindings(mostPlaced),
	}
	if p.cap == 0 {
		p.cap = math.Inf(1)
	}
	return p
}

// Pick implements pick.Policy.
func (p *kvCacheAware) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs := v.Candidates
	p.find(v, r)
	below := func(c *pick.Candidate) bool { return fair.Outstanding(c)/p.batch < p.cap }
	room := false
	for i := range cs {
		room = room || below(&cs[i])
	}
	at := p.ties.least(cs, func(i int) float64 {
		if room && !below(&cs[i]) {
			return math.Inf(1)
		}
		return -p.score(i, &cs[i])
	})
	reason := reasons.Score
	if key := p.keptBy(v, r); key != 0 {
		if home, known := p.homes.Peek(key); known {
			i := slices.IndexFunc(cs, func(c pick.Candidate) bool { return c.Key == home })
			if i >= 0 && (!room || below(&cs[i])) {
				at, reason = i, pick.ReasonSession
			}
		}
	}
	return pick.Choice{Index: at, Reason: reason}
}

// Hooks implements pick.Policy.
func (p *kvCacheAware) Hooks() pick.Hooks {
	return pick.Hooks{Placed: p.placed, Reserved: p.reserved, Released: p.released}
}

func (p *kvCacheAware) placed(v *pick.View, r *fleet.Request, c pick.Choice) {
	p.ties.advance()
	if p.tracks {
		p.tracked.Enter(v.Candidates)
		p.fit(v.Candidates)
	}
	if key := p.keptBy(v, r); key != 0 {
		p.homes.Put(key, v.Candidates[c.Index].Key)
	}
}

// find fills p.found. A block matches by the tracked blocks or by Candidate.CachedTokens.
func (p *kvCacheAware) find(v *pick.View, r *fleet.Request) {
	cs := v.Candidates
	p.found = slices.Grow(p.found[:0], len(cs))[:len(cs)]
	clear(p.found)
	listed := listOf(r)
	if len(listed) == 0 {
		p.chain = scoped(p.chain[:0], r, content.Blocks(r), content.Bytes(r), content.Whole(r))
		p.count(cs, v.PromptTokens, content.Bytes(r))
		for i := range cs {
			f := &p.found[i]
			f.matched = max(f.matched, inBlocks(cs[i].CachedTokens, v.PromptTokens, p.size(&cs[i])))
		}
		return
	}
	rest := v.PromptTokens
	for i := range listed {
		q := &listed[i]
		p.chain = scoped(p.chain[:0], r, q.Blocks, q.Bytes, q.Hash)
		tokens := min(rest, listedTokens(v, r, q))
		p.count(cs, tokens, q.Bytes)
		rest -= tokens
	}
	p.chain = p.chain[:0]
	p.count(cs, rest, 0) // those beyond fleet.MaxListed
	for i := range cs {
		f := &p.found[i]
		f.matched = max(f.matched, min(f.whole, cs[i].CachedTokens/p.size(&cs[i])))
	}
}

// count adds one prompt, whose blocks are p.chain.
func (p *kvCacheAware) count(cs []pick.Candidate, tokens, bytes int) {
	if p.tracks && bytes > 0 {
		p.tracked.Match(cs, p.chain)
	}
	for i := range cs {
		f, size := &p.found[i], p.size(&cs[i])
		if f.whole += blocks(tokens, size); p.tracks && bytes > 0 {
			sent := 0
			// else its cache was lost
			if epoch := p.epochs.Peek(cs[i].Slot, cs[i].Key); epoch != nil && *epoch == cs[i].Epoch {
				sent = min(bytes, p.tracked.Depth(&cs[i])*fleet.BlockBytes)
			}
			f.matched += inBlocks(int(int64(tokens)*int64(sent)/int64(bytes)), tokens, size)
		}
	}
}

// size is the number of tokens of a block at a candidate.
func (p *kvCacheAware) size(c *pick.Candidate) int {
	switch {
	case p.block > 0:
		return p.block
	case c.BlockTokens > 0:
		return c.BlockTokens
	}
	return defaultTokensPerBlock
}

// score is the formula; the conversions prevent fused operations.
func (p *kvCacheAware) score(i int, c *pick.Candidate) float64 {
	f := &p.found[i]
	if size := p.size(c); p.shares {
		return float64(float64(f.matched*size)/float64(max(1, f.whole*size))) - float64(fair.Outstanding(c)/p.batch)
	}
	return float64(f.matched) - float64(p.weight*fair.Outstanding(c))
}

// inBlocks is the number of matching blocks of a prompt with this many cached tokens. If all but the last token are
// cached, the last block is cached too, full or not.
func inBlocks(cached, tokens, size int) int {
	whole := blocks(tokens, size)
	if cached >= tokens-1 {
		return whole
	}
	return min(cached/size, whole)
}

// blocks is the number of blocks of this many tokens: the last token belongs to none.
func blocks(tokens, size int) int {
	if tokens < 2 {
		return 0
	}
	return (tokens - 1 + size - 1) / size
}

// keptBy is the key for content affinity; 0 for none.
func (p *kvCacheAware) keptBy(v *pick.View, r *fleet.Request) uint64 {
	switch {
	case p.keeps == affinityOff:
		return 0
	case p.keeps == affinityOn && r.Session != "":
		return v.Hash
	case r.Content == nil || r.Content.Start == 0:
		return 0
	case p.keeps == affinityMessages:
		return r.Content.Start
	}
	return byhash.Mix(r.Content.Start ^ byhash.Text(r.Tenant))
}

// fit forgets the blocks of lost caches and bounds the others.
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

// reserved keeps the request's blocks until its end.
func (p *kvCacheAware) reserved(l fleet.Lease, c *pick.Candidate, _ *pick.View, r *fleet.Request) {
	listed := listOf(r)
	if !p.tracks || r.Class != fleet.Turn || content.Bytes(r) == 0 && len(listed) == 0 {
		return
	}
	i := int(uint32(l))
	for len(p.open) <= i {
		p.open = append(p.open, openPrompt{})
	}
	o := &p.open[i]
	o.lease, o.key, o.slot, o.chain, o.ends = l, c.Key, c.Slot, o.chain[:0], o.ends[:0]
	if len(listed) == 0 {
		o.chain = scoped(o.chain, r, content.Blocks(r), content.Bytes(r), content.Whole(r))
		o.ends = append(o.ends, len(o.chain))
	}
	for i := range listed {
		q := &listed[i]
		o.chain = scoped(o.chain, r, q.Blocks, q.Bytes, q.Hash)
		o.ends = append(o.ends, len(o.chain))
	}
}

// released notes that a prompt answered in full is cached there.
func (p *kvCacheAware) released(l fleet.Lease, answered bool) {
	i := int(uint32(l))
	if i >= len(p.open) || p.open[i].lease != l {
		return
	}
	o := &p.open[i]
	from := 0
	for _, end := range o.ends {
		if answered && end > from {
			p.tracked.Answered(o.slot, o.key, o.chain[from:end])
		}
		from = end
	}
	if o.lease, o.chain, o.ends = 0, o.chain[:0], o.ends[:0]; cap(o.chain) > keptRoom {
		o.chain = nil
	}
}

// scoped appends the first longestPrompt blocks of a prompt and a last one for the whole prompt if its hash is known,
// mixed with the tenant and the prompt's scope.
func scoped(to []uint64, r *fleet.Request, blocks []uint64, bytes int, whole uint64) []uint64 {
	if r.Content == nil {
		return to
	}
	scope := r.Content.Scope ^ byhash.Text(r.Tenant)
	for _, b := range blocks[:min(len(blocks), longestPrompt)] {
		to = append(to, byhash.Mix(b^scope)|1) // 0 names no block
	}
	if whole != 0 && len(blocks) < longestPrompt && len(blocks)*fleet.BlockBytes < bytes {
		to = append(to, byhash.Mix(whole^scope^byhash.Golden)|1)
	}
	return to
}

// listOf is the prompts of a request with several, else nil.
func listOf(r *fleet.Request) []fleet.Listed {
	if r.Content == nil {
		return nil
	}
	return r.Content.List
}

// listedTokens is the tokens of one of several prompts: its token ids, or its share of the estimate for all.
func listedTokens(v *pick.View, r *fleet.Request, q *fleet.Listed) int {
	if q.IDs > 0 || r.Content.Bytes == 0 {
		return q.IDs
	}
	return int(int64(v.PromptTokens) * int64(q.Bytes) / int64(max(q.Bytes, r.Content.Bytes)))
}
