package rivals

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
)

// lmetric is LMetric (D. Zhang and others, arXiv 2603.15202, 2026): the smallest product of the prompt tokens that the endpoint
// would have to compute, this request's included, and its batch size, this request included. It has no parameter. The
// original asks the engines what they hold, so Candidate.CachedTokens takes the place of that. Equals are drawn.
type lmetric struct{}

// NewLMetric makes the policy lmetric.
func NewLMetric() pick.Policy { return lmetric{} }

// Pick implements pick.Policy.
func (lmetric) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	at := fair.Lowest(v, func(c *pick.Candidate) float64 {
		return float64((float64(c.Load.PrefillTokens) + uncached(v, c)) * float64(c.Load.Requests+1))
	})
	return pick.Choice{Index: at, Reason: reasons.Score}
}
