package basic

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
)

// leastTokens picks the endpoint with the fewest tokens still to compute per weight: uncached prompt tokens before
// the first byte and answer tokens expected. Among equals the one with the shorter queue of its own, as its latest
// report says: reports are late, so they do not outvote the books.
type leastTokens struct{}

// NewLeastTokens makes the policy least_tokens.
func NewLeastTokens() pick.Policy { return leastTokens{} }

// Pick implements pick.Policy.
func (leastTokens) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: fair.Least(v, tokens), Reason: reasons.LeastTokens}
}

func tokens(c *pick.Candidate) fair.Burden {
	return fair.Burden{First: float64(c.Load.Work()) / c.Weight, Second: float64(c.Load.Waiting) / c.Weight}
}
