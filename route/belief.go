package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/size"
)

// belief is what the router thinks is in the caches of the endpoints.
type belief struct {
	index   *prefix.Index
	ghosts  ghosts
	missed  float64 // tokens of a turn that were known and are cached nowhere any more, of late
	evicted float64 // tokens that a turn pushed out of a cache, of late
}

// cache is what is learnt of one endpoint's cache.
type cache struct {
	bound   int      // blocks the belief is bounded by now
	told    int      // blocks that the capacity it tells, or the default, is
	ratio   float64  // tokens of its prompts by canonical byte, of late
	flow    int64    // blocks computed so far, as far as is known
	share   float64  // of the capacity it tells, or of the default: what proves to be there
	doubts  int      // requests in a row whose cached tokens were all missing
	doubted []uint64 // the prompt of the first of them: it is there now

	doubtedAt time.Time // when that one was sent
	suspect   int       // answers that may still show that it restarted when it broke one off

	restarts uint64 // times it was noticed to have lost its cache
}

// Parameters of the belief.
const (
	firstShare    = 0.95    // answers and half-filled blocks take room too
	leastShare    = 0.05    // the cache of an engine is never believed to be smaller than that
	untoldTokens  = 500_000 // capacity of an endpoint that tells none: an H100 with an 8B model in FP8 has about so many
	shareDown     = 0.98    // each time something believed was not there
	shareUp       = 1.02    // each time something was there that was thought gone
	untoldMost    = 4.0     // bound of share where no capacity is told
	mostShare     = 16.0    // and where host memory or disks proved to keep what the memory beside the GPU pushes out (LMCache, HiCache, vLLM's offloading)
	beyond        = 1.25    // of the capacity told: a conversation that so much was put in since has not been kept in that
	shareBeyond   = 0.5     // of the way to what it proves, for each of these
	leastDoubt    = 64      // tokens below which a prediction that fails says nothing about a restart
	mostDoubts    = 2       // such requests in a row mean that the cache is gone
	suspicion     = 3       // answers after one that broke off of which one that misses a quarter is enough
	mostRefreshed = 4       // see refresh
	missedRate    = 0.02    // weight of a turn in what View.Missed is made of

	// What an endpoint is believed to hold is bounded whatever it says: no text has fewer tokens, and 2^18 blocks are eight
	// million tokens of English.
	leastTokensPerByte = 0.1
	mostBlocks         = 1 << 18
	leastRatioBytes    = 512
)

// promptText is who holds how much of the prompt at hand.
type promptText struct {
	keys    []uint64 // its kept blocks, as asked of a model
	model   string   // that model
	matches prefix.Matches
	known   bool // rows have been looked up by these

	// By KV events, in the names of kvstream.
	events  bool     // rows have been looked up by these too
	chain   []uint64 // the blocks that the prompt begins with: a tie's, which may not be changed while it is decided
	limit   int      // tokens of the prompt that are no guess: of the chain, the earlier prompt
	covers  int      // of the router's own blocks of the prompt, those that the chain is about
	matched prefix.Matches
}

// predict fills in how much of the prompt each endpoint probably holds.
func (r *Router) predict(d *decision, v *table, t *conversation.Found) {
	b, x := &r.belief, &d.text
	x.known, x.events = false, false
	v.Known, v.Missed = 0, 0
	if d.req.Content == nil || len(d.req.Content.Blocks) == 0 || v.PromptTokens == 0 {
		r.predictHome(d, v, t, 0, false)
		return
	}
	x.known, x.model = true, ""
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if i == 0 || c.Model != x.model {
			r.look(x, d.req, c.Model)
		}
		c.Blocks = x.matches.Depth(c.Slot)
		c.CachedTokens = wholeBlocks(c, min(d.size.At(blocks.Bytes(c.Blocks)), v.PromptTokens-1))
		v.Known = max(v.Known, c.CachedTokens)
	}
	r.kvExact(d, v, t)
	if v.Home >= 0 && !v.Candidates[v.Home].Exact {
		r.predictHome(d, v, t, v.Candidates[v.Home].Blocks, true)
		v.Known = max(v.Known, v.Candidates[v.Home].CachedTokens)
	}
	gone := 0
	if t.Known && t.Entry.Prompt > 0 {
		gone = min(t.Entry.Prompt, v.PromptTokens) - v.Known - t.Entry.Prompt/16 - fleet.BlockBytes // the last, broken block is no loss
	}
	if n := b.ghosts.seen(x.keys); n > 0 { // also of what conversations share
		gone = max(gone, min(d.size.At(blocks.Bytes(n)), v.PromptTokens-1)-v.Known)
	}
	b.missed += float64(missedRate * (float64(max(0, gone)) - b.missed))
	if b.evicted > 0 {
		v.Missed = min(1, b.missed/b.evicted)
	}
}

// look finds what is believed to be where of the prompt, as asked of a model.
func (r *Router) look(x *promptText, req *fleet.Request, model string) {
	x.keys = blocks.Keys(x.keys, blocks.Scope(model, req.Tenant, req.Content), req.Content)
	x.model = model
	r.belief.index.Match(x.keys, &x.matches)
}

// predictHome counts in what a conversation's home produced itself: the answers, which the belief sees only when they come
// back in the next prompt, as far as they do. It holds them as long as it holds what came before.
func (r *Router) predictHome(d *decision, v *table, t *conversation.Found, depth int, believed bool) {
	if v.Home < 0 || v.PromptTokens == 0 || v.Candidates[v.Home].Epoch != t.Entry.Epoch {
		return
	}
	if believed && depth < blocks.Kept(t.Entry.Bytes/fleet.BlockBytes) {
		return // some of it is thought evicted, or the client has changed its history
	}
	c, held := &v.Candidates[v.Home], t.Entry.Tokens
	if said := held - t.Entry.Prompt; t.Entry.Prompt > 0 && said > 0 {
		held = t.Entry.Prompt + d.pool.answers.found(said)
	}
	c.CachedTokens = max(c.CachedTokens, wholeBlocks(c, min(held, v.PromptTokens-1)))
}

// wholeBlocks rounds down to the blocks in which an endpoint's engine caches.
func wholeBlocks(c *pick.Candidate, tokens int) int {
	if n := c.BlockTokens; n > 1 {
		return tokens - tokens%n
	}
	return tokens
}

// remember enters a decision into the belief, and keeps the chain for when its outcome is known.
func (r *Router) remember(d *decision, v *table, ep *endpoint, f *flight, c *pick.Candidate) {
	x, req := &d.text, d.req
	if req.Content == nil || !x.known || len(x.keys) == 0 {
		return
	}
	if c.Model != x.model {
		r.look(x, req, c.Model)
	}
	r.kvNote(d, ep, f, c)
	f.chain = append(f.chain[:0], x.keys...)
	f.depth, f.bytes = c.Blocks, req.Content.Bytes
	f.sure, f.counted = r.sure(ep, f), f.depth
	if v.sure {
		f.counted = c.Present
	}
	r.belief.ghosts.add(f.chain)
	r.bound(ep, f.pool)
	ep.cache.flow += int64(blocks.Reach(len(f.chain)) - blocks.Reach(f.depth))
	f.used = ep.cache.flow
	r.refresh(ep)
	units := r.belief.index.Units(ep.slot) + blocks.Reach(len(f.chain)) - blocks.Reach(f.depth)
	r.holds(ep, f.chain)
	gone := float64(max(0, units-r.belief.index.Units(ep.slot))*fleet.BlockBytes) * f.pool.size.TokensPerByte()
	r.belief.evicted += float64(missedRate * (gone - r.belief.evicted))
	ep.pending = append(ep.pending, f.index)
	r.hold(ep, f)
}

// refresh marks as just used what requests that are being answered hold: an engine pushes nothing of that out, however long they take. A few
// are looked at each time, in turn, and marked again once an eighth of the cache has been put in since.
func (r *Router) refresh(ep *endpoint) {
	h := &ep.held
	if r.belief.index.Units(ep.slot) < ep.cache.bound-ep.cache.bound/8 {
		return
	}
	for range min(mostRefreshed, len(h.flights)) {
		h.next = (h.next + 1) % len(h.flights)
		f := &r.flights[h.flights[h.next]]
		if f.prefilled && ep.cache.flow-f.used > int64(ep.cache.bound/8) {
			f.used = ep.cache.flow
			r.holds(ep, f.chain)
		}
	}
}

// holds enters a chain. A llama.cpp slot keeps one prompt: another one takes its place.
func (r *Router) holds(ep *endpoint, chain []uint64) {
	if ep.spec.Part.Kind == fleet.Slot {
		r.belief.index.Clear(ep.slot)
	}
	r.belief.index.Insert(ep.slot, chain)
}

// sure is how many of the blocks that a flight hopes to find are not only about to be computed for another one.
func (r *Router) sure(ep *endpoint, f *flight) int {
	sure := f.depth
	for _, i := range ep.pending {
		g := &r.flights[i]
		// A block's name covers all before it, so two chains have more than g.sure blocks in common if that one is the same.
		if n := g.sure; n < sure && n < min(len(f.chain), len(g.chain)) && f.chain[n] == g.chain[n] {
			sure = n
		}
	}
	return sure
}

// computed takes a flight off the list of those that others must not count on yet.
func (ep *endpoint) computed(f *flight) {
	if i := slices.Index(ep.pending, f.index); i >= 0 {
		ep.pending = slices.Delete(ep.pending, i, i+1)
	}
}

// bound sets how many blocks an endpoint is believed to hold at most.
func (r *Router) bound(ep *endpoint, p *pool) {
	if ep.cache.share == 0 {
		ep.cache.share = firstShare
	}
	ratio := ep.cache.ratio // not the pool's: several may share the endpoint, and what they hold must not depend on who came last
	if ratio == 0 {
		ratio = p.size.TokensPerByte()
	}
	told := float64(ep.toldTokens()) / float64(max(ratio, leastTokensPerByte)*fleet.BlockBytes)
	blocks := min(int(float64(told*ep.cache.share)), mostBlocks)
	ep.cache.told = int(told)
	// Small changes of the ratio are no reason to evict.
	if d := blocks - ep.cache.bound; d > ep.cache.bound/64 || -d > ep.cache.bound/64 {
		ep.cache.bound = blocks
		r.belief.index.SetCapacity(ep.slot, blocks)
	}
}

// cacheTokens is what the endpoint's cache is taken to hold.
func (ep *endpoint) cacheTokens() int64 {
	return int64(float64(float64(ep.toldTokens()) * ep.cache.share))
}

// toldTokens is the capacity that the engine tells, or what stands for it.
func (ep *endpoint) toldTokens() int64 {
	tokens := ep.report.CacheTokens
	if tokens <= 0 {
		tokens = ep.kvCapacity()
	}
	if tokens <= 0 {
		tokens = untoldTokens
	}
	return tokens
}

// settle compares what an engine said it had cached with what was believed. The prompt itself is there now in any case.
func (r *Router) settle(f *flight, ev *Finished) (lost bool) {
	ep := f.ep
	if f.incarnation != ep.incarnation {
		return false
	}
	if len(f.chain) > 0 {
		switch {
		case ev.Outcome == fleet.OK || f.prefilled:
			r.holds(ep, f.chain) // engines let go of blocks, oldest first, when the request is over
		default:
			r.belief.index.Truncate(ep.slot, f.chain, f.depth) // what it would have computed it has not
		}
	}
	if ev.Outcome == fleet.EngineError || ev.Outcome == fleet.ConnectFailed {
		ep.cache.suspect = suspicion
	}
	u := &ev.Usage
	if ev.Outcome == fleet.OK && u.PromptTokens > 0 && f.bytes >= leastRatioBytes {
		sample := min(max(float64(u.PromptTokens)/float64(f.bytes), leastTokensPerByte), 2)
		ep.cache.ratio = toward(ep.cache.ratio, sample)
	}
	if ev.Outcome != fleet.OK || !u.CachedKnown || u.PromptTokens <= 0 || f.epoch != ep.epoch {
		return false // or the cache that the prediction was about is gone
	}
	f.learnAnswer(u)
	if f.kv.exact && ep.mirror.trusted() {
		return false // the prediction was not made of this belief
	}
	predicted, found := f.decision.CachedTokens, u.CachedTokens
	if f.sure < f.counted {
		predicted = min(predicted, int(int64(predicted)*int64(f.sure)/int64(f.counted)))
	}
	slack := 2*max(ep.report.BlockTokens, 16) + u.PromptTokens/50
	// As long as there was room for more nothing is learnt about where it ends.
	full := r.belief.index.Units(ep.slot) >= ep.cache.bound-ep.cache.bound/8
	missed := found+slack < min(predicted, size.Part(u.PromptTokens, blocks.Bytes(f.depth), f.bytes)) // an answer that the client leaves out is no loss
	switch {
	case missed && (full || ep.cache.share > 1):
		ep.cache.share = max(leastShare, float64(ep.cache.share*shareDown))
	case full && found > predicted+slack:
		most := 1.0
		if ep.report.CacheTokens <= 0 {
			most = untoldMost
		}
		ep.cache.share = max(ep.cache.share, min(most, float64(ep.cache.share*shareUp)))
	}
	f.outlasted(found, slack)
	f.recount(found, slack, u.PromptTokens)
	if lost = ep.doubt(f, predicted, found, u.PromptTokens); lost {
		back := ep.cache.doubted
		r.lostCache(ep)
		ep.cache.restarts++
		r.holds(ep, back)
		r.holds(ep, f.chain)
	}
	return lost
}

// outlasted looks whether a conversation was found again, nearly all of it, of which the memory that the engine tells of can have kept
// nothing: there is more behind it, as much as was computed since at least. One that was to be there by that and is not shows that there is
// less. Other prompts tell nothing of it, since they may have texts in common with some that nobody knows of.
func (f *flight) outlasted(found, slack int) {
	c := &f.ep.cache
	if f.base == 0 || c.told == 0 {
		return
	}
	kept := float64(f.since) / float64(c.told)
	switch {
	case 8*found >= 7*f.base && found > f.decision.CachedTokens+slack && kept > max(beyond, c.share):
		c.share += float64(shareBeyond * (min(kept, mostShare) - c.share))
	case 8*found < f.base && c.share > max(kept, 1):
		c.share += float64(shareBeyond * (max(kept, 1) - c.share))
	}
}

// recount takes from what is thought to have been computed what was found though it was thought gone.
func (f *flight) recount(found, slack, prompt int) {
	if more := min(found, prompt) - f.decision.CachedTokens; more > slack {
		f.ep.cache.flow -= int64(blocks.Reach(len(f.chain)) * more / prompt)
	}
}

// since is how many blocks an engine has computed since a conversation's last turn there. What still waits is no part of it: the turn may
// go before that. So few that outlasted makes nothing of them are not looked into.
func (r *Router) since(ep *endpoint, t *conversation.Found) int {
	flow := ep.flowSince(t)
	if ep.cache.share <= 1 && float64(flow) <= beyond*float64(ep.cache.told) {
		return flow
	}
	for _, i := range ep.pending {
		f := &r.flights[i]
		flow -= blocks.Reach(len(f.chain)) - blocks.Reach(f.depth)
	}
	return flow
}

// recent reports whether the conversation's last turn is so recent that nothing of it can have been evicted: much less than the
// cache holds was put in since, and most of it is not in use.
func (ep *endpoint) recent(t *conversation.Found) bool {
	if !t.Known || t.Entry.Endpoint != ep.spec.Name || t.Entry.Epoch != ep.epoch {
		return false
	}
	return ep.flowSince(t) < min(ep.cache.bound, ep.cache.told)/4 && 2*ep.load.ContextTokens < min(ep.cacheTokens(), ep.toldTokens())
}

// flowSince is how many blocks were put into the cache since the conversation's last turn.
func (ep *endpoint) flowSince(t *conversation.Found) int {
	return int(int32(uint32(ep.cache.flow) - t.Entry.Flow))
}

// doubt notices that an engine has lost its cache: requests in a row find nothing of what should be there, or only what the
// first of them has brought back. After an answer has broken off one that misses a good part is enough. What all share, the
// system prompt, is never the first to be evicted.
func (ep *endpoint) doubt(f *flight, predicted, found, prompt int) (lost bool) {
	c := &ep.cache
	if predicted < leastDoubt || c.doubts > 0 && f.routed.Before(c.doubtedAt) {
		return false
	}
	// What can have been evicted by others must be missing nearly whole to count. Of what cannot, any part counts.
	held := size.Part(prompt, blocks.Bytes(f.sure), f.bytes)
	broken := f.recent && found+leastDoubt+prompt/16 < held
	if !broken && found*8 >= predicted && (c.suspect == 0 || found+leastDoubt >= predicted-predicted/4) {
		c.suspect = max(0, c.suspect-1)
		back := size.Part(prompt, blocks.Bytes(blocks.Common(f.chain, c.doubted)), f.bytes)
		if c.doubts == 0 || found > back+leastDoubt {
			c.doubts, c.doubted = 0, nil
			return false
		}
		if found+leastDoubt > predicted {
			return false // nothing is missing, but nothing shows that the rest is there
		}
	}
	if c.doubts++; c.doubts >= mostDoubts || c.suspect > 0 {
		return true
	}
	c.doubted, c.doubtedAt = append(c.doubted[:0], f.chain...), f.routed
	return false
}

// lostCache forgets what an endpoint held.
func (r *Router) lostCache(ep *endpoint) {
	r.renew(ep)
	ep.cache.doubts, ep.cache.doubted, ep.cache.suspect = 0, nil, 0
	r.belief.index.Clear(ep.slot)
}
