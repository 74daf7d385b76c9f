package policy

import "github.com/warmpath/warmpath/route"

// ReasonRandom says that the endpoint was drawn.
const ReasonRandom route.Reason = "random"

// random draws an endpoint in proportion to weight.
type random struct{}

func newRandom(Config) route.Policy { return random{} }

// Pick implements route.Policy.
func (random) Pick(v *route.View, _ *route.Request) route.Choice {
	return route.Choice{Index: draw(v.Rand, v.Candidates, nobody), Reason: ReasonRandom}
}
