package basic

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
)

// powerOfTwo draws two different endpoints by weight and picks the one with fewer tokens to compute per weight, then
// with fewer requests per weight (M. Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001). It
// is nearly as even as the least loaded of all, and routers without common state do not all choose the same endpoint.
//
// A tie goes to the one drawn first, whose chance is exactly its weight.
type powerOfTwo struct{ pick.Plain }

// NewPowerOfTwo makes power_of_two.
func NewPowerOfTwo() pick.Policy { return powerOfTwo{pick.Plain{Name: "power_of_two"}} }

// Pick implements pick.Policy.
func (powerOfTwo) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	a, b := two(v)
	if b != pick.None && workload(&v.Candidates[b]).Compare(workload(&v.Candidates[a])) < 0 {
		a = b
	}
	return pick.Choice{Index: a, Reason: reasons.PowerOfTwo}
}

// two draws two different candidates; second is pick.None when there is only one.
func two(v *pick.View) (first, second int) {
	if len(v.Candidates) == 1 {
		return 0, pick.None
	}
	first = fair.Draw(v.Rand, v.Candidates, pick.None)
	return first, fair.Draw(v.Rand, v.Candidates, first)
}

func workload(c *pick.Candidate) fair.Burden {
	return fair.Burden{First: float64(c.Load.Work()) / c.Weight, Second: float64(c.Load.Requests) / c.Weight}
}
