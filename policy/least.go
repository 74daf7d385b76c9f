package policy

import (
	"github.com/warmpath/warmpath/pick"
)

// A burden is how loaded a candidate is: the first figure decides, the second breaks ties. Both are per weight.
// Quotients are compared and not products of a load and the other's weight, since rounded quotients still have one
// order and rounded products may go in circles.
type burden struct{ first, second float64 }

func (b burden) compare(o burden) int {
	switch {
	case b.first < o.first:
		return -1
	case b.first > o.first:
		return 1
	case b.second < o.second:
		return -1
	case b.second > o.second:
		return 1
	}
	return 0
}

// least picks the candidate with the smallest burden; equals are drawn by weight.
func least(v *pick.View, of func(c *pick.Candidate) burden) int {
	cs := v.Candidates
	var e even
	e.only(0, cs[0].Weight)
	best := of(&cs[0])
	for i := 1; i < len(cs); i++ {
		b := of(&cs[i])
		switch b.compare(best) {
		case -1:
			best = b
			e.only(i, cs[i].Weight)
		case 0:
			e.add(v.Rand, i, cs[i].Weight)
		}
	}
	return e.index
}
