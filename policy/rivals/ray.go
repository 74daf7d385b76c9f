package rivals

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
)

// ray is Ray Serve LLM's PrefixCacheAffinityRouter with its defaults (ray-project/ray at 06c16f2,
// llm/_internal/serve/routing_policies/prefix_aware; alpha): if at least 0.1 of the prompt is in the tree, it considers
// the endpoints with the deepest match, else those with the smallest tree, in characters; of these it picks the one
// with the shortest queue, the first of ties. The threshold for imbalance, above which it would take the less loaded of
// two, is infinite by default. Without the prompt it picks the less loaded of two drawn evenly. The prompt is recorded
// for the endpoint picked.
//
// Differences: prompts are compared in blocks of 128 bytes. The original does not evict by default; here an endpoint's
// prompts are limited to 64 MiB, oldest first.
type ray struct {
	pick.Plain
	tree sent.Tree
}

const rayMatchRate = 0.1

// NewRay makes the policy ray.prefix_pow2.
func NewRay() pick.Policy {
	return &ray{
		Plain: pick.Plain{Name: "ray.prefix_pow2", Exact: true, Content: true},
		tree:  sent.NewTree(sent.Unbounded),
	}
}

// Pick implements pick.Policy.
func (p *ray) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs, chain := v.Candidates, content.Blocks(r)
	if content.Bytes(r) == 0 {
		return pick.Choice{Index: lessOfTwo(v), Reason: reasons.Load}
	}
	p.tree.Match(cs, chain)
	deepest, reason := p.tree.Deepest(cs), reasons.CacheMatch
	size := func(c *pick.Candidate) int { return -p.tree.Depth(c) }
	if float64(deepest*fleet.BlockBytes)/float64(content.Bytes(r)) < rayMatchRate {
		reason = reasons.Load
		size = func(c *pick.Candidate) int { return p.tree.Size(c) }
	}
	at := 0
	for i := range cs {
		a, b := size(&cs[i]), size(&cs[at])
		if a < b || a == b && cs[i].Load.Requests < cs[at].Load.Requests {
			at = i
		}
	}
	return pick.Choice{Index: at, Reason: reason}
}

// Hooks implements pick.Policy.
func (p *ray) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *ray) placed(v *pick.View, r *fleet.Request, c pick.Choice) {
	if content.Bytes(r) == 0 {
		return
	}
	p.tree.Enter(v.Candidates)
	p.tree.Sent(&v.Candidates[c.Index], content.Blocks(r))
}

// lessOfTwo is the less loaded of two different candidates drawn evenly, the first of ties.
func lessOfTwo(v *pick.View) int {
	n := len(v.Candidates)
	if n == 1 {
		return 0
	}
	a, b := v.Rand.IntN(n), v.Rand.IntN(n-1)
	if b >= a {
		b++
	}
	if v.Candidates[b].Load.Requests < v.Candidates[a].Load.Requests {
		return b
	}
	return a
}
