package fair

import "github.com/warmpath/warmpath/pick"

// Lowest picks the candidate with the smallest figure, ignoring weights; ties are drawn evenly.
func Lowest(v *pick.View, of func(c *pick.Candidate) float64) int {
	at, equals, best := 0, 0, 0.0
	for i := range v.Candidates {
		f := of(&v.Candidates[i])
		switch {
		case equals == 0 || f < best:
			at, equals, best = i, 1, f
		case f == best:
			equals++
			if v.Rand.IntN(equals) == 0 {
				at = i
			}
		}
	}
	return at
}

// Outstanding is a candidate's outstanding requests by the router's count.
func Outstanding(c *pick.Candidate) float64 { return float64(c.Load.Requests) }

// Spread returns the requests of the least and of the most loaded candidate, and of all together.
func Spread(cs []pick.Candidate) (fewest, most, total int) {
	fewest = cs[0].Load.Requests
	for i := range cs {
		n := cs[i].Load.Requests
		fewest, most, total = min(fewest, n), max(most, n), total+n
	}
	return fewest, most, total
}
