package rivals

import (
	"math"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
)

// smgCacheAware is the default policy of SMG with the defaults of its command line (smg-project/smg 1.13, policy
// cache_aware, over HTTP).
//
// A prompt with more than 0.3 in the tree goes to the least loaded endpoint with the deepest match that is not under
// pressure; if all of these are, to the least loaded of the others. Any other prompt goes to the least loaded endpoint.
// An endpoint is under pressure while its load is above 1.5 times the mean and above the mean plus a margin: twice the
// standard deviation of a random count of that mean, at least 4 and at most 64. The prompt is recorded for the endpoint
// picked, so that a popular prefix gets more homes. Load is outstanding requests, ties are drawn.
//
// Differences: prompts are compared in blocks of 128 bytes and include roles. Its limit of 2^26 characters for all
// endpoints is divided evenly and enforced at all times instead of every 60 s. Load is that for a fleet without
// /v1/loads; with it the original estimates the wait from the engines' queued tokens. The triggers on KV usage are off,
// as by default.
type smgCacheAware struct {
	pick.Plain
	tree sent.Tree
}

const (
	smgCacheThreshold = 0.3
	smgBalanceAbs     = 64
	smgBalanceLeast   = 4
	smgBalanceRel     = 1.5
	smgTreeBytes      = 1 << 26
)

// NewSMGCacheAware makes the policy smg.cache_aware.
func NewSMGCacheAware() pick.Policy {
	return &smgCacheAware{
		Plain: pick.Plain{Name: "smg.cache_aware", Exact: true, Content: true},
		tree:  sent.NewTree(smgTreeBytes / fleet.BlockBytes),
	}
}

// Pick implements pick.Policy.
func (p *smgCacheAware) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs, chain := v.Candidates, content.Blocks(r)
	p.tree.Match(cs, chain)
	// endpoints that cannot take the request count too, and may hide shallower matches of others
	deepest := p.tree.DeepestAnywhere()
	pressure := smgPressure(cs)
	held, safe, others := 0, 0, 0
	if float64(deepest*fleet.BlockBytes) > float64(smgCacheThreshold*float64(content.Bytes(r))) {
		for i := range cs {
			calm := fair.Outstanding(&cs[i]) <= pressure
			switch {
			case p.tree.Depth(&cs[i]) == deepest:
				held++
				if calm {
					safe++
				}
			case calm:
				others++
			}
		}
	}
	at := fair.Lowest(v, func(c *pick.Candidate) float64 {
		calm, holds := fair.Outstanding(c) <= pressure, p.tree.Depth(c) == deepest
		if safe > 0 && !(holds && calm) || safe == 0 && held > 0 && others > 0 && !calm {
			return math.Inf(1)
		}
		return fair.Outstanding(c)
	})
	if safe > 0 {
		return pick.Choice{Index: at, Reason: reasons.CacheMatch}
	}
	return pick.Choice{Index: at, Reason: reasons.Load}
}

// Hooks implements pick.Policy.
func (p *smgCacheAware) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *smgCacheAware) placed(v *pick.View, r *fleet.Request, c pick.Choice) {
	p.tree.Share(v.Candidates, smgTreeBytes/fleet.BlockBytes)
	p.tree.Enter(v.Candidates)
	p.tree.Sent(&v.Candidates[c.Index], content.Blocks(r))
}

// smgPressure is the most requests of an endpoint that is not under pressure.
func smgPressure(cs []pick.Candidate) float64 {
	_, _, total := fair.Spread(cs)
	mean := float64(total) / float64(len(cs))
	margin := min(smgBalanceAbs, max(smgBalanceLeast, float64(2*math.Sqrt(mean))))
	return max(float64(smgBalanceRel*mean), mean+margin)
}
