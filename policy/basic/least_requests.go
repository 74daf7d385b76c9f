package basic

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
)

// leastRequests picks the endpoint with the fewest outstanding requests per weight, by the router's own count.
type leastRequests struct{ pick.Plain }

// NewLeastRequests makes least_requests.
func NewLeastRequests() pick.Policy { return leastRequests{pick.Plain{Name: "least_requests"}} }

// Pick implements pick.Policy.
func (leastRequests) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: fair.Least(v, fair.Requests), Reason: reasons.LeastRequests}
}
