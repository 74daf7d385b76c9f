package rivals

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
)

// lmetric is LMetric (D. Zhang and others, arXiv 2603.15202, 2026): the smallest product of the endpoint's prompt
// tokens to compute and its batch size, both including this request. It has no parameter. The original asks the engines
// for their cache contents; here these are Candidate.CachedTokens. Ties are drawn.
type lmetric struct{ pick.Plain }

// NewLMetric makes the policy lmetric.
func NewLMetric() pick.Policy {
	return lmetric{pick.Plain{Name: "lmetric", Exact: true, Content: true}}
}

// Pick implements pick.Policy.
func (lmetric) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	at := fair.Lowest(v, func(c *pick.Candidate) float64 {
		return float64((float64(c.Load.PrefillTokens) + uncached(v, c)) * float64(c.Load.Working()+1))
	})
	return pick.Choice{Index: at, Reason: reasons.Score}
}
