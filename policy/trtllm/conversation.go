package trtllm

import (
	"math"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/slot"
)

// conversation is TensorRT-LLM's conversation router (PR 12526, May 2026). In this order:
//
//  1. A request with an id whose endpoint is a candidate goes there, however busy that is: it gives back-pressure itself.
//  2. A request without an id goes on from the session that has the longest beginning of it in common and whose endpoint is a
//     candidate, if that is at least match_threshold of the request's own blocks. It takes over that session.
//  3. Any other goes to the least loaded, and the session is there from now on: an id whose endpoint went is bound anew.
//
// Load is the content weight of the requests in flight, at least 1 each; with none in flight all are equal and take turns
// (ties). Sessions are bounded by number and never by age.
//
// The original cuts text into blocks of 128 code points; here it is the canonical form in blocks of 128 bytes, converted to
// characters, so that a match is exact to one block. Blocks of another size are counted from there.
//
// Differences: text of role:content lines is measured in canonical bytes, which print structured parts otherwise. A weight is in
// tokens (text in characters / 5) whatever the request is made of; block_weights has the published ones. A session without
// an id goes by the id that the router gave the conversation, so that a client that adopts it stays. What hash_skip_count
// leaves out must still be the same. Tenants never share a session.
type conversation struct {
	threshold float64
	block     int
	tokens    bool // text is counted in tokens
	skip      int
	byTable   bool
	published bool // weights
	sessions  sessions
	ties      ties
	loads     slot.Table[int64]      // content weight in flight
	open      slot.Table[openWeight] // by the low half of the lease
	chain     []uint64               // scratch
}

type openWeight struct {
	key    uint64
	slot   int
	weight int64
}

// NewConversation makes the policy trtllm.conversation with a configuration that has its defaults.
func NewConversation(o ConversationConfig) pick.Policy {
	return &conversation{
		threshold: floatOr(o.MatchThreshold, trtMatchThreshold), block: o.TokensPerBlock, tokens: o.UseTokenIDs, skip: o.HashSkipCount,
		byTable: o.IDsByTableOnly, published: o.BlockWeights, sessions: newSessions(o.MaxSessions),
	}
}

// Pick implements pick.Policy.
func (p *conversation) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs := v.Candidates
	if r.Class != fleet.Turn { // embeddings belong to no conversation
		return pick.Choice{Index: p.lightest(cs), Reason: reasons.Load}
	}
	named := r.Session != ""
	p.chain = p.chain[:0]
	if !named || !p.byTable {
		p.chain = spoken(p.chain, r)
	}
	if named {
		if endpoint, known := p.sessions.where(v.Hash); known {
			if at := holder(cs, endpoint); at >= 0 {
				p.sessions.put(v.Hash, endpoint, p.chain)
				return pick.Choice{Index: at, Reason: pick.ReasonSession}
			}
		}
	} else if key, at := p.continued(v, r); at >= 0 {
		p.sessions.put(key, cs[at].Key, p.chain)
		return pick.Choice{Index: at, Reason: reasons.CacheMatch}
	}
	at := p.lightest(cs)
	p.sessions.put(v.Hash, cs[at].Key, p.chain)
	return pick.Choice{Index: at, Reason: reasons.Load}
}

// lightest is the least loaded by content weight.
func (p *conversation) lightest(cs []pick.Candidate) int {
	return p.ties.least(cs, func(c *pick.Candidate) float64 { return float64(p.load(c)) })
}

// continued finds the session that a request without an id goes on from, and its endpoint among the candidates; nobody when
// there is none.
func (p *conversation) continued(v *pick.View, r *fleet.Request) (key uint64, at int) {
	n := p.size(v, r)
	skip := p.skipped(r)
	total := blocks(n-skip, p.block)
	if total == 0 {
		return 0, pick.Nobody
	}
	whole := r.Content.Bytes
	if r.Content.Text.Messages > 0 && whole > 1 {
		whole-- // the last line end is no part of the text that n measures
	}
	enough := func(depth int) bool {
		matched := total
		if depth*fleet.BlockBytes < r.Content.Bytes {
			matched = max(0, int(int64(depth*fleet.BlockBytes)*int64(n)/int64(whole))-skip) / p.block
		}
		return float64(matched)/float64(total) >= p.threshold
	}
	deepest := p.sessions.depth(p.chain)
	if deepest == 0 || !enough(deepest) {
		return 0, pick.Nobody
	}
	least := deepest
	for least > 1 && enough(least-1) {
		least--
	}
	at = pick.Nobody
	key, _ = p.sessions.find(p.chain, least, func(endpoint uint64) bool {
		at = holder(v.Candidates, endpoint)
		return at >= 0
	})
	return key, at
}

// holder is the candidate with a key.
func holder(cs []pick.Candidate, key uint64) int {
	for i := range cs {
		if cs[i].Key == key {
			return i
		}
	}
	return pick.Nobody
}

// size is length, 0 for a prompt whose content is not known.
func (p *conversation) size(v *pick.View, r *fleet.Request) int {
	if r.Content == nil || r.Content.Bytes == 0 {
		return 0
	}
	return p.length(v, r)
}

// length is that of a prompt, in characters or tokens.
func (p *conversation) length(v *pick.View, r *fleet.Request) int {
	switch {
	case r.PromptTokens > 0:
		return r.PromptTokens
	case p.tokens:
		return v.PromptTokens
	}
	return characters(r)
}

// skipped is what hash_skip_count leaves out, in the measure of size.
func (p *conversation) skipped(r *fleet.Request) int {
	if r.PromptTokens > 0 || p.tokens {
		return p.skip
	}
	return int(min(int64(p.skip)*trtCharsPerToken, math.MaxInt32))
}

// characters is the length of a prompt's text as the original weighs it: of a chat the lines "role:content", joined by line ends,
// one less than in the canonical form.
func characters(r *fleet.Request) int {
	if r.Content == nil {
		return r.PromptBytes
	}
	n := content.Characters(r.Content.Bytes, r.Content)
	if r.Content.Text.Messages > 0 {
		n--
	}
	return n
}

// weigh is a request's content weight. As published, one without blocks weighs nothing.
func (p *conversation) weigh(v *pick.View, r *fleet.Request) int64 {
	if p.published && (r.Session == "" || !p.byTable) {
		return int64(blocks(p.length(v, r)-p.skipped(r), p.block)) * int64(p.block)
	}
	if r.PromptTokens > 0 {
		return int64(r.PromptTokens)
	}
	return int64(max(1, characters(r)/trtCharsPerToken))
}

// spoken is the blocks of a prompt, the first longestPrompt, as its tenant's, and a last one that stands for the whole when that is known.
func spoken(to []uint64, r *fleet.Request) []uint64 {
	tenant, blocks := hashText(r.Tenant), content.Blocks(r)
	for _, b := range blocks[:min(len(blocks), longestPrompt)] {
		to = append(to, byhash.Mix(b^tenant)|1)
	}
	if r.Trail != nil && r.Trail.Text != 0 && len(blocks) > 0 && len(blocks) < longestPrompt && len(blocks)*fleet.BlockBytes < r.Content.Bytes {
		to = append(to, byhash.Mix(r.Trail.Text^tenant^byhash.Golden)|1)
	}
	return to
}

// Load is the content weight in flight at a candidate.
func (p *conversation) load(c *pick.Candidate) int64 {
	if load := p.loads.Peek(c.Slot, c.Key); load != nil {
		return *load
	}
	return 0
}

// Reserved implements pick.Keeping.
func (p *conversation) Reserved(l fleet.Lease, c *pick.Candidate, v *pick.View, r *fleet.Request) {
	if r.Class == fleet.Aside {
		return
	}
	weight := p.weigh(v, r)
	*p.loads.At(c.Slot, c.Key) += weight
	*p.open.At(int(uint32(l)), uint64(l)) = openWeight{key: c.Key, slot: c.Slot, weight: weight}
}

// Released implements pick.Keeping. What an endpoint was given before it went says nothing about the one that has its slot now.
func (p *conversation) Released(l fleet.Lease, _ bool) {
	o := p.open.Peek(int(uint32(l)), uint64(l))
	if o == nil {
		return
	}
	if load := p.loads.Peek(o.slot, o.key); load != nil {
		*load = max(0, *load-o.weight)
	}
	p.open.Reset(int(uint32(l)))
}

// Forget implements pick.Forgetting: the sessions of a server that is removed go with it. What it has in flight counts until it ends.
func (p *conversation) Forget(endpoint uint64) { p.sessions.leave(endpoint) }
