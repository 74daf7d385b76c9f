package policy

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// random draws an endpoint in proportion to weight.
type random struct{}

func newRandom() pick.Policy { return random{} }

// Pick implements route.Policy.
func (random) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: draw(v.Rand, v.Candidates, pick.Nobody), Reason: ReasonRandom}
}
