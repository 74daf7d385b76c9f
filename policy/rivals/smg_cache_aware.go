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

// smgCacheAware is the default policy of SMG with the defaults of its command line (smg-project/smg 1.13, policy cache_aware, over
// HTTP).
//
// A prompt of which more than 0.3 is in the tree goes to the least loaded of those that hold the deepest match and are not
// under pressure; if all of them are, to the least loaded of the others. Any other prompt goes to the least loaded. An endpoint
// is under pressure while its load is above 1.5 times the mean and above the mean plus a margin, which is twice the
// standard deviation that a random count of that mean has, at least 4 and at most 64. The prompt is entered under the
// endpoint picked, so that a beginning in demand gets more homes. Load is outstanding requests, equals are drawn.
//
// Differences: the tree is cut at 128 bytes and includes roles. Its bound of 2^26 characters for all endpoints together is
// shared among them evenly and kept at all times, not every 60 s. Load is that of a fleet that does not answer /v1/loads; with
// it the original estimates the wait by the engines' queued tokens. The triggers on KV usage are off, as by default.
type smgCacheAware struct{ tree sent.Tree }

const (
	smgCacheThreshold = 0.3
	smgBalanceAbs     = 64
	smgBalanceLeast   = 4
	smgBalanceRel     = 1.5
	smgTreeBytes      = 1 << 26
)

// NewSMGCacheAware makes the policy smg.cache_aware.
func NewSMGCacheAware() pick.Policy {
	return &smgCacheAware{tree: sent.NewTree(smgTreeBytes / fleet.BlockBytes)}
}

// Pick implements pick.Policy.
func (p *smgCacheAware) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs, chain := v.Candidates, content.Blocks(r)
	p.tree.Share(cs, smgTreeBytes/fleet.BlockBytes)
	p.tree.Match(cs, chain)
	deepest := p.tree.DeepestAnywhere() // those that cannot take the request count, and may hide shallower matches of others
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
	p.tree.Sent(&cs[at], chain)
	if safe > 0 {
		return pick.Choice{Index: at, Reason: reasons.CacheMatch}
	}
	return pick.Choice{Index: at, Reason: reasons.Load}
}

// smgPressure is the most requests that an endpoint may hold before it is under pressure.
func smgPressure(cs []pick.Candidate) float64 {
	_, _, total := fair.Spread(cs)
	mean := float64(total) / float64(len(cs))
	margin := min(smgBalanceAbs, max(smgBalanceLeast, float64(2*math.Sqrt(mean))))
	return max(float64(smgBalanceRel*mean), mean+margin)
}
