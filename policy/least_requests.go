package policy

import "github.com/warmpath/warmpath/route"

// ReasonLeastRequests says that the endpoint had the fewest outstanding requests per weight.
const ReasonLeastRequests route.Reason = "least_requests"

// leastRequests picks the endpoint with the fewest outstanding requests per weight, by the router's own books.
type leastRequests struct{}

func newLeastRequests(Config) route.Policy { return leastRequests{} }

// Pick implements route.Policy.
func (leastRequests) Pick(v *route.View, _ *route.Request) route.Choice {
	return route.Choice{Index: least(v, requests), Reason: ReasonLeastRequests}
}

func requests(c *route.Candidate) burden {
	return burden{first: float64(c.Load.Requests) / c.Weight}
}
