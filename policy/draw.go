package policy

import (
	"math/rand/v2"

	"github.com/warmpath/warmpath/pick"
)

// draw picks a candidate other than the one at skip, in proportion to weight.
func draw(rng *rand.Rand, cs []pick.Candidate, skip int) int {
	total := 0.0
	for i := range cs {
		if i != skip {
			total += cs[i].Weight
		}
	}
	mark := float64(rng.Float64() * total) // the conversion keeps the product from being fused with what follows
	last := pick.Nobody
	for i := range cs {
		if i == skip {
			continue
		}
		last = i
		if mark < cs[i].Weight {
			return i
		}
		mark -= cs[i].Weight
	}
	return last // rounding left a sliver beyond the end
}

// An even is a running draw among candidates that are equally good, in proportion to weight: each newcomer replaces
// the one held with the probability of its share so far (reservoir sampling, A. Efraimidis and P. Spirakis, 2006,
// for a sample of one).
type even struct {
	index int
	total float64
}

// only restarts the draw with one candidate.
func (e *even) only(i int, weight float64) { e.index, e.total = i, weight }

// add lets one more candidate in.
func (e *even) add(rng *rand.Rand, i int, weight float64) {
	e.total += weight
	if rng.Float64()*e.total < weight {
		e.index = i
	}
}
