package basic

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
)

// leastTokens picks the endpoint with the fewest tokens still to compute per weight: uncached prompt tokens before the
// first byte, and expected answer tokens. Ties go to the shorter queue in the engine's latest report: reports are late,
// so they only break ties.
type leastTokens struct{ pick.Plain }

// NewLeastTokens makes least_tokens.
func NewLeastTokens() pick.Policy { return leastTokens{pick.Plain{Name: "least_tokens"}} }

// Pick implements pick.Policy.
func (leastTokens) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: fair.Least(v, tokens), Reason: reasons.LeastTokens}
}

func tokens(c *pick.Candidate) fair.Burden {
	return fair.Burden{First: float64(c.Load.Work()) / c.Weight, Second: float64(c.Load.EngineWaiting) / c.Weight}
}
