package trtllm

import (
	"math"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
	"github.com/warmpath/warmpath/slot"
)

// conversation is TensorRT-LLM's conversation router (PR 12526, May 2026). In this order:
//
//  1. A request with an id whose endpoint is a candidate goes there, at any load: the endpoint gives back-pressure
//     itself.
//  2. A request without an id continues the session with the longest common prefix and an endpoint among the
//     candidates, if the prefix is at least match_threshold of the request's own blocks. It takes over that session.
//  3. Any other request goes to the least loaded, which then has the session: an id whose endpoint left is bound anew.
//
// Load is the content weight of running requests, at least 1 each; idle endpoints are ties and take turns (ties).
// Sessions are limited in number, not in age.
//
// The original splits text into blocks of 128 code points. Here the canonical form has blocks of 128 bytes, converted
// to characters, so that a match is exact to one block. Other block sizes are converted from these.
//
// Differences: text of role:content lines is measured in canonical bytes, which render structured parts differently. A
// weight is in tokens (text in characters / 5) for every form of request; block_weights has the published weights. A
// session without an id uses the id that the router gave the conversation, so that a client that adopts it stays. A
// request that continues a session may be a new conversation to the router, whose id it then gets: that id leads to the
// session's endpoint too. The part excluded by hash_skip_count must still match. Tenants never share a session.
//
// Several texts in one request are matched as one, joined by line ends. Of several lists of token ids only the first is
// matched, and with use_token_ids of several texts too, as in the original.
type conversation struct {
	pick.Plain
	threshold float64
	block     int
	tokens    bool // text is counted in tokens
	skip      int
	byTable   bool
	published bool // published weights
	sessions  sessions
	given     sent.Bindings // ids given to requests that continued a session of another key -> Candidate.Key
	ties      ties
	loads     slot.Table[int64]      // content weight of running requests
	open      slot.Table[openWeight] // by the low half of the lease
	chain     []uint64               // scratch
}

type openWeight struct {
	key    uint64
	slot   int
	weight int64
}

// NewConversation makes trtllm.conversation. The configuration must have its defaults.
func NewConversation(o ConversationConfig) pick.Policy {
	return &conversation{
		Plain: pick.Plain{Name: "trtllm.conversation", Exact: true, Content: true, WhenOnly: true},
		threshold: floatOr(
			o.MatchThreshold,
			defaultMatchThreshold,
		), block: o.TokensPerBlock, tokens: o.UseTokenIDs, skip: o.HashSkipCount,
		byTable: o.IDsByTableOnly, published: o.BlockWeights, sessions: newSessions(o.MaxSessions),
		given: sent.NewBindings(max(1, o.MaxSessions/4)),
	}
}

// Pick implements pick.Policy.
func (p *conversation) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	return p.place(v, r).Choice
}

// placement is a choice and what is remembered of it.
type placement struct {
	pick.Choice
	session uint64 // key of the session that a turn begins or continues
	given   bool   // the request's own key leads there too
}

// Hooks implements pick.Policy.
func (p *conversation) Hooks() pick.Hooks {
	return pick.Hooks{Placed: p.placed, Reserved: p.reserved, Released: p.released, Forgotten: p.forgotten}
}

func (p *conversation) placed(v *pick.View, r *fleet.Request, _ pick.Choice) {
	to := p.place(v, r)
	if to.Reason == reasons.Load {
		p.ties.advance()
	}
	endpoint := v.Candidates[to.Index].Key
	if to.given {
		p.given.Put(v.Hash, endpoint)
	}
	if r.Class == fleet.Turn {
		p.sessions.put(to.session, endpoint, p.chain)
	}
}

// place places a request. It leaves its blocks in chain.
func (p *conversation) place(v *pick.View, r *fleet.Request) placement {
	cs := v.Candidates
	lightest := func() placement {
		return placement{Choice: pick.Choice{Index: p.lightest(cs), Reason: reasons.Load}, session: v.Hash}
	}
	if r.Class != fleet.Turn { // embeddings belong to no conversation
		return lightest()
	}
	named := r.Session != ""
	p.chain = p.chain[:0]
	if !named || !p.byTable {
		p.chain = p.spoken(p.chain, r)
	}
	if named {
		if endpoint, given, known := p.home(v.Hash); known {
			if at := holder(cs, endpoint); at >= 0 {
				return placement{pick.Choice{Index: at, Reason: pick.ReasonSession}, v.Hash, given}
			}
		}
	} else if key, at := p.continued(v, r); at >= 0 {
		return placement{pick.Choice{Index: at, Reason: reasons.CacheMatch}, key, key != v.Hash}
	}
	return lightest()
}

// home is the endpoint of a conversation, and whether that was given to it.
func (p *conversation) home(key uint64) (endpoint uint64, given, known bool) {
	if endpoint, known = p.sessions.where(key); known {
		return endpoint, false, true
	}
	endpoint, known = p.given.Peek(key)
	return endpoint, known, known
}

// lightest is the least loaded by content weight.
func (p *conversation) lightest(cs []pick.Candidate) int {
	return p.ties.least(cs, func(i int) float64 { return float64(p.load(&cs[i])) })
}

// continued is the session that a request without an id continues, and its endpoint among the candidates; pick.None if
// there is none.
func (p *conversation) continued(v *pick.View, r *fleet.Request) (key uint64, at int) {
	n := p.size(v, r)
	skip := p.skipped(r)
	total := blocks(n-skip, p.block)
	if total == 0 {
		return 0, pick.None
	}
	bytes := p.bytes(r)
	whole := bytes
	if r.Content.Text.Messages > 0 && whole > 1 {
		whole-- // the last line end is not part of the text that n measures
	}
	enough := func(depth int) bool {
		matched := total
		if depth*fleet.BlockBytes < bytes {
			matched = max(0, int(int64(depth*fleet.BlockBytes)*int64(n)/int64(whole))-skip) / p.block
		}
		return float64(matched)/float64(total) >= p.threshold
	}
	deepest := p.sessions.depth(p.chain)
	if deepest == 0 || !enough(deepest) {
		return 0, pick.None
	}
	least := deepest
	for least > 1 && enough(least-1) {
		least--
	}
	at = pick.None
	key, _ = p.sessions.find(p.chain, least, func(endpoint uint64) bool {
		at = holder(v.Candidates, endpoint)
		return at >= 0
	})
	return key, at
}

// holder is the index of the candidate with a key.
func holder(cs []pick.Candidate, key uint64) int {
	for i := range cs {
		if cs[i].Key == key {
			return i
		}
	}
	return pick.None
}

// size is length, or 0 for a prompt with unknown content.
func (p *conversation) size(v *pick.View, r *fleet.Request) int {
	if p.bytes(r) == 0 {
		return 0
	}
	return p.length(v, r)
}

// first is the first of several prompts if only that one is matched, else nil.
func (p *conversation) first(r *fleet.Request) *fleet.Listed {
	if listed := listOf(r); len(listed) > 0 && (p.tokens || listed[0].IDs > 0) {
		return &listed[0]
	}
	return nil
}

// bytes is the length of the matched text in canonical bytes; 0 when unknown.
func (p *conversation) bytes(r *fleet.Request) int {
	if q := p.first(r); q != nil {
		return q.Bytes
	}
	return content.Bytes(r)
}

// length is the length of the matched text, in characters or tokens.
func (p *conversation) length(v *pick.View, r *fleet.Request) int {
	q := p.first(r)
	switch {
	case q != nil:
		return listedTokens(v, r, q)
	case r.PromptTokens > 0:
		return r.PromptTokens
	case p.tokens:
		return v.PromptTokens
	}
	return characters(r)
}

// skipped is the part excluded by hash_skip_count, in the unit of size.
func (p *conversation) skipped(r *fleet.Request) int {
	if r.PromptTokens > 0 || p.tokens {
		return p.skip
	}
	return int(min(int64(p.skip)*charsPerToken, math.MaxInt32))
}

// characters is the length of a prompt's text as the original weighs it: for a chat the lines "role:content" joined by
// line ends, one less than in the canonical form.
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

// weigh is a request's content weight. With published weights, a request without blocks weighs nothing.
func (p *conversation) weigh(v *pick.View, r *fleet.Request) int64 {
	if p.published && (r.Session == "" || !p.byTable) {
		return int64(blocks(p.length(v, r)-p.skipped(r), p.block)) * int64(p.block)
	}
	if r.PromptTokens > 0 {
		return int64(r.PromptTokens)
	}
	return int64(max(1, characters(r)/charsPerToken))
}

// spoken is the first longestPrompt blocks of the matched text, scoped to the tenant, and a last one for the whole text
// if its hash is known.
func (p *conversation) spoken(to []uint64, r *fleet.Request) []uint64 {
	tenant, blocks, whole := byhash.Text(r.Tenant), content.Blocks(r), content.Whole(r)
	if q := p.first(r); q != nil {
		blocks, whole = q.Blocks, q.Hash
	} else if whole == 0 && r.Trail != nil {
		whole = r.Trail.Text
	}
	for _, b := range blocks[:min(len(blocks), longestPrompt)] {
		to = append(to, byhash.Mix(b^tenant)|1)
	}
	if whole != 0 && len(blocks) < longestPrompt && len(blocks)*fleet.BlockBytes < p.bytes(r) {
		to = append(to, byhash.Mix(whole^tenant^byhash.Golden)|1)
	}
	return to
}

// load is the content weight of a candidate's running requests.
func (p *conversation) load(c *pick.Candidate) int64 {
	if load := p.loads.Peek(c.Slot, c.Key); load != nil {
		return *load
	}
	return 0
}

func (p *conversation) reserved(l fleet.Lease, c *pick.Candidate, v *pick.View, r *fleet.Request) {
	if r.Class == fleet.Auxiliary {
		return
	}
	weight := p.weigh(v, r)
	*p.loads.At(c.Slot, c.Key) += weight
	*p.open.At(int(uint32(l)), uint64(l)) = openWeight{key: c.Key, slot: c.Slot, weight: weight}
}

// released takes a request off its endpoint. One that left does not change its successor in the slot.
func (p *conversation) released(l fleet.Lease, _ bool) {
	o := p.open.Peek(int(uint32(l)), uint64(l))
	if o == nil {
		return
	}
	if load := p.loads.Peek(o.slot, o.key); load != nil {
		*load = max(0, *load-o.weight)
	}
	p.open.Reset(int(uint32(l)))
}

// forgotten drops the sessions of a removed server. Its running requests count until they end.
func (p *conversation) forgotten(endpoint uint64) {
	p.sessions.leave(endpoint)
	p.given.Forget(endpoint)
}
