package policy

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// leastTokens picks the endpoint with the fewest tokens still to compute per weight: uncached prompt tokens before
// the first byte and answer tokens expected. Among equals the one with the shorter queue of its own, as its latest
// report says: reports are late, so they do not outvote the books.
type leastTokens struct{}

func newLeastTokens() pick.Policy { return leastTokens{} }

// Pick implements route.Policy.
func (leastTokens) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: least(v, tokens), Reason: ReasonLeastTokens}
}

func tokens(c *pick.Candidate) burden {
	return burden{first: float64(c.Load.Work()) / c.Weight, second: float64(c.Load.Waiting) / c.Weight}
}
