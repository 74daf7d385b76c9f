package reported

import (
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// Chain is the blocks, in the engines' names, that one prompt begins with, and who holds how many of them. It is the
// memory of one decision, and may be used again.
type Chain struct {
	Known  bool     // some endpoint has events, so that the rest was looked up
	Covers int      // how many of the router's own blocks of the prompt the chain is about
	names  []uint64 // of a binding, which does not change while the request is decided
	// tokens of the prompt, up to the end of the earlier one, that are certain to be the same; 0 for all
	limit  int
	cached prefix.Matches // who has cached how many of names
	used   []uint64       // keys of the bindings that were found, for Touch
	own    bool           // the chain is of the conversation's last turn, and what goes on from there is not in it
	depths []int          // scratch: ends of what endpoints are believed to hold, ascending
}

// Reset begins a decision.
func (c *Chain) Reset() {
	c.Known, c.names, c.used = false, nil, c.used[:0]
}

// Find finds the blocks that a prompt begins with: those of its conversation's last turn, if it goes on from there,
// else those of a prompt that began with the same text, which may reach deeper. keys are the router's own blocks of the
// prompt, believed is who is believed to hold how many of these.
func (r Reader) Find(c *Chain, tenant, session string, keys []uint64, believed *prefix.Matches) {
	if c.Known = r.t.any; !c.Known {
		return
	}
	c.names, c.limit, c.Covers, c.own = nil, 0, 0, false
	r.lookUp(c, tenant, session, keys, believed)
	if len(c.names) > 0 {
		r.t.index.Match(c.names, &c.cached)
	}
}

func (r Reader) lookUp(c *Chain, tenant, session string, keys []uint64, believed *prefix.Matches) {
	b, past := &r.t.bindings, 0
	if session != "" {
		if x := b.byKey[Conversation(tenant, session)]; x != nil {
			c.used = append(c.used, x.key)
			if x.goesOn(keys) {
				c.names, c.limit, c.Covers, c.own = x.turn(), x.prompt, len(keys), true
				past = x.reach
			}
		}
	}
	// The deepest place at which a chain is noted: where what an endpoint is believed to hold ends, or the prompt
	// itself.
	at, sorted := len(keys), false
	for at > past {
		if x := b.byKey[checkpointKey(keys[at-1])]; x != nil && len(x.chain) > len(c.names) {
			c.used = append(c.used, x.key)
			c.names, c.limit, c.Covers, c.own = x.chain, 0, at, false
			return
		}
		if !sorted {
			c.depths, sorted = c.depths[:0], true
			for _, d := range believed.All() {
				c.depths = append(c.depths, d)
			}
			slices.Sort(c.depths)
		}
		n, _ := slices.BinarySearch(c.depths, at)
		if c.depths = c.depths[:n]; n == 0 {
			return
		}
		at = c.depths[n-1]
	}
}

// ByChain is how many tokens of a prompt an endpoint holds by its events, at most all but the last; ok is false when
// they do not say.
func (r Reader) ByChain(slot int, c *Chain, promptTokens int) (tokens int, ok bool) {
	e := r.t.endpoints.Get(slot)
	if e.block <= 0 || len(c.names) == 0 || e.State == kvstream.None {
		return 0, false
	}
	cached := c.cached.Depth(slot) * e.block
	if c.limit > 0 && cached > c.limit && e.answersChange() {
		cached = c.limit - c.limit%e.block
	}
	whole := promptTokens - 1
	return min(cached, whole-whole%e.block), true
}

// Deeper reports whether an endpoint may hold more of a prompt than the chain says: it holds all of the conversation's
// chain, which ends with the last turn, and is believed to hold clearly more: another request may have had the rest
// computed.
func (r Reader) Deeper(slot int, c *Chain, believed int) bool {
	e := r.t.endpoints.Get(slot)
	if !c.own || e.block <= 0 || c.cached.Depth(slot) < len(c.names) {
		return false
	}
	covered := len(c.names) * e.block
	return believed-covered > e.block+covered/32 // beyond what an estimated length may be off
}

// Touch marks as used what Find found since the last Touch.
func (t *Table) Touch(c *Chain) {
	for _, key := range c.used {
		t.bindings.get(key)
	}
	c.used = c.used[:0]
}

// mostNamedIDs is how many tokens of a prompt are looked up, so that naming their blocks takes far less than a
// millisecond of a decision (BenchmarkIDs of cache).
const mostNamedIDs = 1 << 16

// IDs is the blocks of a prompt whose token ids are known before the decision, by the sizes of blocks that engines
// have. They are the same whatever model the prompt is for, so that one decision names them once. It is the memory of
// one decision, and may be used again.
type IDs struct {
	tokens *fleet.Tokens
	sizes  [2]sized
}

// sized is the blocks of one size, and who holds how many of them.
type sized struct {
	block  int // tokens of one; 0 for none yet
	names  []uint64
	cached prefix.Matches
}

// Of takes in a prompt's ids, unless it has them already; nil for none.
func (n *IDs) Of(tokens *fleet.Tokens) {
	if tokens != nil && n.tokens == tokens {
		return
	}
	n.tokens = tokens
	for i := range n.sizes {
		n.sizes[i].block = 0
	}
}

// blocks finds the blocks of a size in the first mostNamedIDs tokens, of a second size in half as many. It is nil for a
// third size: engines that have it are predicted as if no ids were known.
func (n *IDs) blocks(block int, index *prefix.Index) *sized {
	for i := range n.sizes {
		switch s := &n.sizes[i]; s.block {
		case block:
			return s
		case 0:
			ids := n.tokens.IDs
			ids = ids[:min(len(ids), bound.Many*block, mostNamedIDs>>i)]
			s.block, s.names = block, kvstream.Names(ids, block, "", 0, s.names[:0])
			index.Match(s.names, &s.cached)
			return s
		}
	}
	return nil
}

// ByIDs is how many tokens of a prompt an endpoint holds by its events where the prompt's token ids are known, for any
// request that had it computed; at most all but the last. ok is false where the events do not say. whole is false when
// more of the prompt may be cached than was looked up.
func (r Reader) ByIDs(slot int, n *IDs, promptTokens int) (tokens int, whole, ok bool) {
	e := r.t.endpoints.Get(slot)
	if n.tokens == nil || len(n.tokens.IDs) == 0 || e.block <= 0 || e.State == kvstream.None || e.foreign ||
		r.t.index == nil {
		return 0, false, false
	}
	s := n.blocks(e.block, r.t.index)
	if s == nil {
		return 0, false, false
	}
	depth, most := 0, promptTokens-1
	if len(s.names) > 0 {
		depth = s.cached.Depth(slot)
	}
	if !n.tokens.More {
		most = min(promptTokens, len(n.tokens.IDs)) - 1
	}
	whole = depth < len(s.names) || !n.tokens.More && len(s.names) == len(n.tokens.IDs)/e.block
	return max(0, min(depth*e.block, most-most%e.block)), whole, true
}
