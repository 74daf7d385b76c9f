package rivals

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
)

// mooncake is Algorithm 1 of Mooncake (R. Qin and others, FAST 2025, section 4): the smallest estimated time to first
// token,
//
//	TTFT = transfer + queue + prefill
//
// where queue is the time to compute the prompts in front, and prefill that for the uncached part of this one. The
// paper fits a polynomial offline for both; here the router's learnt speeds replace it. Its index follows the engines;
// here it is Candidate.CachedTokens. Ties are drawn.
//
// Differences: engines without a shared pool cannot fetch from one another, so transfer is 0 and a prefix counts only
// at its endpoint (an infinite kvcache_balancing_threshold). A request is never rejected for its predicted TTFT, since
// a policy always picks.
type mooncake struct{ pick.Plain }

// NewMooncake makes the policy mooncake.algorithm1.
func NewMooncake() pick.Policy {
	return mooncake{pick.Plain{Name: "mooncake.algorithm1", Exact: true, Content: true}}
}

// Pick implements pick.Policy.
func (mooncake) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	at := fair.Lowest(v, func(c *pick.Candidate) float64 { return queuedTTFT(v, c) })
	return pick.Choice{Index: at, Reason: reasons.Score}
}

// queuedTTFT is the time in ms to compute all prompts waiting at a candidate and the uncached part of this one.
func queuedTTFT(v *pick.View, c *pick.Candidate) float64 {
	return float64((float64(c.Load.PrefillTokens) + uncached(v, c)) * v.PerToken(c))
}
