package stack

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
)

// prefixAware is production-stack's routing logic prefixaware (vllm-project/production-stack at a6c01db0,
// prefix/hashtrie.py): a trie of chunks of 128 characters. It picks any endpoint with the deepest chunk, evenly at
// random, ignoring load; without a match any endpoint at all (--prefix-min-match-length 0). The prompt is recorded for
// the endpoint picked.
//
// Differences: an incomplete last chunk does not count. The original never forgets; here an endpoint's prompts are
// limited to 64 MiB, oldest first.
type prefixAware struct {
	pick.Plain
	tree sent.Tree
}

// NewPrefixAware makes the policy stack.prefixaware.
func NewPrefixAware() pick.Policy {
	return &prefixAware{
		Plain: pick.Plain{Name: "stack.prefixaware", Exact: true, Content: true},
		tree:  sent.NewTree(sent.Unbounded),
	}
}

// Pick implements pick.Policy.
func (p *prefixAware) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs, chain := v.Candidates, content.Blocks(r)
	p.tree.Match(cs, chain)
	deepest := p.tree.Deepest(cs)
	at := fair.Lowest(v, func(c *pick.Candidate) float64 { return -float64(p.tree.Depth(c)) })
	if deepest == 0 {
		return pick.Choice{Index: at, Reason: reasons.Random}
	}
	return pick.Choice{Index: at, Reason: reasons.CacheMatch}
}

// Hooks implements pick.Policy.
func (p *prefixAware) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *prefixAware) placed(v *pick.View, r *fleet.Request, c pick.Choice) {
	p.tree.Enter(v.Candidates)
	p.tree.Sent(&v.Candidates[c.Index], content.Blocks(r))
}
