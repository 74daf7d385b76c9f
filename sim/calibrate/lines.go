package calibrate

import (
	"math"
	"math/rand/v2"
	"slices"
)

// sample is an observation y that should be a×p + b×q.
type sample struct{ p, q, y float64 }

const (
	fitPairs   = 200 // pairs of samples tried
	fitJudges  = 500 // samples that evaluate them
	fitRefine  = 12  // rounds of weighted least squares
	tukey      = 4.685
	madToSigma = 1.4826
)

// robust fits a and b, neither below 0, tolerating up to half of the samples as outliers: least median of squares over
// planes through pairs of samples (Rousseeuw 1984), ties to the plane with fewest far samples, refined by least squares
// without weight for far samples (Tukey's bisquare). outliers is the share of samples without weight. The seed draws
// the pairs.
func robust(samples []sample, seed uint64) (a, b, outliers float64) {
	if len(samples) == 0 {
		return 0, 0, 0
	}
	scale := make([]float64, len(samples)) // errors grow with the measured value, but more slowly
	typical := max(medianOf(samples, func(s *sample) float64 { return s.q }), 1e-12)
	for i := range samples {
		scale[i] = math.Sqrt(max(samples[i].q/typical, 0.1))
	}
	// below this a residual is not far
	least := max(float64(0.003*medianOf(samples, func(s *sample) float64 { return math.Abs(s.y) })), 1e-9)
	rng := rand.New(rand.NewPCG(seed, 0x726f62757374))
	judges := rng.Perm(len(samples))[:min(len(samples), fitJudges)]
	off := make([]float64, len(judges))
	best, fewest := math.Inf(1), 0
	for range fitPairs {
		i, j := rng.IntN(len(samples)), rng.IntN(len(samples))
		x, y := plane(samples[i], samples[j])
		if math.IsNaN(x) {
			continue
		}
		for k, at := range judges {
			off[k] = math.Abs(samples[at].off(x, y)) / scale[at]
		}
		m := max(median(off), least) // if more than half of the samples have one q, many planes fit all of these
		if far := beyond(off, float64(tukey*madToSigma*m)); m < best || m == best && far < fewest {
			best, fewest, a, b = m, far, x, y
		}
	}
	weights := make([]float64, len(samples))
	off = make([]float64, len(samples))
	for range fitRefine {
		for i := range samples {
			off[i] = math.Abs(samples[i].off(a, b)) / scale[i]
		}
		sigma := max(float64(madToSigma*median(slices.Clone(off))), least)
		none := 0
		for i := range samples {
			u := off[i] / float64(tukey*sigma)
			weights[i] = 0
			if u < 1 {
				inside := 1 - float64(u*u)
				weights[i] = float64(inside*inside) / float64(scale[i]*scale[i])
			} else {
				none++
			}
		}
		a, b = leastSquares(samples, weights)
		outliers = float64(none) / float64(len(samples))
	}
	return a, b, outliers
}

// beyond counts the values above a limit.
func beyond(values []float64, limit float64) int {
	n := 0
	for _, v := range values {
		if v > limit {
			n++
		}
	}
	return n
}

func (s *sample) off(a, b float64) float64 { return s.y - float64(a*s.p) - float64(b*s.q) }

// plane is the plane through two samples, NaN if a slope would be negative. For a single sample with only one of p and
// q, or the mean of two, the other slope is 0.
func plane(s, t sample) (a, b float64) {
	d := float64(s.p*t.q) - float64(t.p*s.q)
	if math.Abs(d) > float64(1e-9*(math.Abs(float64(s.p*t.q))+math.Abs(float64(t.p*s.q)))) {
		a, b = (float64(s.y*t.q)-float64(t.y*s.q))/d, (float64(s.p*t.y)-float64(t.p*s.y))/d
		if a >= 0 && b >= 0 {
			return a, b
		}
	}
	if s.q > 0 {
		return 0, max(s.y/s.q, 0)
	}
	return math.NaN(), math.NaN()
}

// leastSquares is weighted least squares with neither slope below 0.
func leastSquares(samples []sample, weights []float64) (a, b float64) {
	var pp, pq, qq, py, qy float64
	for i := range samples {
		s, w := &samples[i], weights[i]
		pp += float64(w * s.p * s.p)
		pq += float64(w * s.p * s.q)
		qq += float64(w * s.q * s.q)
		py += float64(w * s.p * s.y)
		qy += float64(w * s.q * s.y)
	}
	if d := float64(pp*qq) - float64(pq*pq); d > float64(1e-9*float64(pp*qq)) {
		a, b = (float64(py*qq)-float64(qy*pq))/d, (float64(qy*pp)-float64(py*pq))/d
	} else {
		a, b = 0, -1
	}
	switch {
	case a >= 0 && b >= 0:
		return a, b
	case b < 0 && pp > 0 && a > 0:
		return max(py/pp, 0), 0
	case qq > 0:
		return 0, max(qy/qq, 0)
	default:
		return 0, 0
	}
}

// median sorts the values and returns their median, 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func medianOf[T any](all []T, value func(*T) float64) float64 {
	values := make([]float64, len(all))
	for i := range all {
		values[i] = value(&all[i])
	}
	return median(values)
}
