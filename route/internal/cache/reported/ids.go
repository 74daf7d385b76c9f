package reported

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route/internal/bound"
)

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
