package fair

import (
	"github.com/warmpath/warmpath/pick"
)

// A Burden is a candidate's load: First decides, Second breaks ties. Both are per weight. Loads are compared as
// quotients, not as products with the other's weight: rounded quotients are ordered, rounded products may be circular.
type Burden struct{ First, Second float64 }

// Compare is negative when b is smaller and positive when o is.
func (b Burden) Compare(o Burden) int {
	switch {
	case b.First < o.First:
		return -1
	case b.First > o.First:
		return 1
	case b.Second < o.Second:
		return -1
	case b.Second > o.Second:
		return 1
	}
	return 0
}

// Least picks the candidate with the smallest burden; ties are drawn by weight.
func Least(v *pick.View, of func(c *pick.Candidate) Burden) int {
	cs := v.Candidates
	var e Sample
	e.Only(0, cs[0].Weight)
	best := of(&cs[0])
	for i := 1; i < len(cs); i++ {
		b := of(&cs[i])
		switch b.Compare(best) {
		case -1:
			best = b
			e.Only(i, cs[i].Weight)
		case 0:
			e.Add(v.Rand, i, cs[i].Weight)
		}
	}
	return e.Index
}

// Requests is a candidate's outstanding requests per weight.
func Requests(c *pick.Candidate) Burden {
	return Burden{First: float64(c.Load.Requests) / c.Weight}
}
