package basic

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
)

// random draws an endpoint in proportion to weight.
type random struct{ pick.Plain }

// NewRandom makes random.
func NewRandom() pick.Policy { return random{pick.Plain{Name: "random"}} }

// Pick implements pick.Policy.
func (random) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: fair.Draw(v.Rand, v.Candidates, pick.None), Reason: reasons.Random}
}
