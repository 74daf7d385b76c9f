package plot

import (
	"math"
	"strconv"

	gonum "gonum.org/v1/plot"
)

// decades marks a logarithmic axis at 1, 2 and 5 times the powers of ten, or at the powers alone when there are many.
type decades struct{}

// Ticks implements gonum's Ticker.
func (decades) Ticks(low, high float64) []gonum.Tick {
	if !(low > 0) || !(high > low) {
		return nil
	}
	first, last := int(math.Floor(math.Log10(low))), int(math.Ceil(math.Log10(high)))
	steps := []float64{1, 2, 5}
	switch span := math.Log10(high / low); {
	case span > 2.5:
		steps = []float64{1}
	case span < 0.4:
		steps = []float64{1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8}
	}
	var out []gonum.Tick
	for e := first; e <= last; e++ {
		for _, s := range steps {
			if v := s * math.Pow(10, float64(e)); v >= low && v <= high {
				out = append(out, gonum.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 4, 64)})
			}
		}
	}
	return out
}

// marks are the given places on an axis.
func marks(at []float64) []gonum.Tick {
	out := make([]gonum.Tick, len(at))
	for i, v := range at {
		out[i] = gonum.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 4, 64)}
	}
	return out
}
