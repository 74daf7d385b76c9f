// Package fair chooses the candidate with the least of a figure and breaks ties without bias: in proportion to weight,
// or evenly for rules that ignore weights.
//
// It keeps no state and takes randomness from the view. The order of the candidates never decides.
package fair

import (
	"math/rand/v2"

	"github.com/warmpath/warmpath/pick"
)

// Draw picks a candidate other than the one at skip, in proportion to weight.
func Draw(rng *rand.Rand, cs []pick.Candidate, skip int) int {
	total := 0.0
	for i := range cs {
		if i != skip {
			total += cs[i].Weight
		}
	}
	mark := float64(rng.Float64() * total) // the conversion prevents a fused operation
	last := pick.None
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
	return last // rounding left a remainder
}

// A Sample is a running draw among tied candidates in proportion to weight: each one added replaces the current one
// with the probability of its share so far (reservoir sampling, A. Efraimidis and P. Spirakis, 2006, for a sample of
// one).
type Sample struct {
	Index int
	total float64
}

// Only restarts the draw with one candidate.
func (e *Sample) Only(i int, weight float64) { e.Index, e.total = i, weight }

// Add adds a candidate to the draw.
func (e *Sample) Add(rng *rand.Rand, i int, weight float64) {
	e.total += weight
	if rng.Float64()*e.total < weight {
		e.Index = i
	}
}
