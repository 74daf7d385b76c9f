package policy

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// stackPrefixAware is production-stack's routing logic prefixaware (vllm-project/production-stack at a6c01db0, prefix/hashtrie.py): a
// trie of chunks of 128 characters; any of the endpoints that hold the deepest chunk, evenly at random, whatever their load. With
// no match at all that is any endpoint (--prefix-min-match-length 0). The prompt is entered under the endpoint picked.
//
// Differences: an incomplete last chunk does not count. The original never forgets; here an endpoint's prompts are
// bounded to 64 MiB, the oldest going first.
type stackPrefixAware struct{ tree memory }

func newStackPrefixAware() pick.Policy {
	return &stackPrefixAware{tree: newMemory(unboundedBlocks)}
}

// Pick implements route.Policy.
func (p *stackPrefixAware) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs, chain := v.Candidates, blocksOf(r)
	p.tree.match(cs, chain)
	deepest := p.tree.deepest(cs)
	at := lowest(v, func(c *pick.Candidate) float64 { return -float64(p.tree.depth(c)) })
	p.tree.sent(&cs[at], chain)
	if deepest == 0 {
		return pick.Choice{Index: at, Reason: ReasonRandom}
	}
	return pick.Choice{Index: at, Reason: ReasonCacheMatch}
}
