package policy

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// leastRequests picks the endpoint with the fewest outstanding requests per weight, by the router's own books.
type leastRequests struct{}

func newLeastRequests() pick.Policy { return leastRequests{} }

// Pick implements route.Policy.
func (leastRequests) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: least(v, requests), Reason: ReasonLeastRequests}
}

func requests(c *pick.Candidate) burden {
	return burden{first: float64(c.Load.Requests) / c.Weight}
}
