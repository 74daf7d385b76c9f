// Package fit estimates values from samples with decaying weights: sums, means, quantiles and least-squares fits.
//
// It owns no samples, only sums of them. It promises that each product is rounded by itself, so that every machine
// computes the same result to the last bit. It never reads a clock and knows no units: the caller says how much each
// sample forgets.
package fit

// How much a sample weighs in a mean, and what a sum forgets with each. All that is learnt takes one of these.
const (
	Usual = 0.04 // what a few dozen samples show
	Slow  = 0.01 // what changes less than samples differ
)

const (
	// Enough is how many samples weigh as much as what is assumed before the first, and how many in a row settle a
	// question.
	Enough = 4
	// Outlier bounds a sample: it counts as this many times what was expected at most, as this part of it at least.
	Outlier = 4
	// Bound is how many times what is assumed an estimate becomes at most, and which part of it at least, where the
	// truth cannot be far away.
	Bound = Outlier * Outlier
	// Least is the least estimate that something is divided by.
	Least = 1e-6
)

// Sum is a sum of samples. The zero Sum is empty.
type Sum float64

// Add keeps the given share (0 to 1) of the sum, and adds a weighted sample.
func (s *Sum) Add(keep, weight, x float64) {
	*s = Sum(float64(float64(*s)*keep) + float64(weight*x))
}

// Mean is a mean of samples, 0 before the first one.
type Mean float64

// Add moves the mean by rate of its distance from a sample. The first sample is taken as it is.
func (m *Mean) Add(rate, x float64) {
	if *m == 0 {
		*m = Mean(x)
		return
	}
	m.Move(rate, x)
}

// Move moves the mean by rate of its distance from a sample, also from 0.
func (m *Mean) Move(rate, x float64) {
	have := float64(*m)
	*m = Mean(have + float64(rate*(x-have)))
}

// Quantile is a positive value with a given share of the samples above it. Its steps are proportional to itself.
type Quantile float64

// Add moves the quantile towards a sample: up by rate × (1-share) of itself when the sample is above, else down by rate
// × share of itself, and never below least.
func (q *Quantile) Add(share, rate, least, x float64) {
	have := float64(*q)
	step := float64(have * rate)
	if x > have {
		*q = Quantile(have + float64(step*(1-share)))
	} else {
		*q = Quantile(max(least, have-float64(step*share)))
	}
}

// Ratio is a line through the origin.
type Ratio struct{ XX, XY Sum }

// Add keeps a share of the sums, and adds a weighted sample.
func (r *Ratio) Add(keep, weight, x, y float64) {
	r.XX.Add(keep, weight, float64(x*x))
	r.XY.Add(keep, weight, float64(x*y))
}

// Slope is y per x. There must be samples.
func (r *Ratio) Slope() float64 { return float64(r.XY) / float64(r.XX) }

// IntSums has the sums of a line through the origin as integers, so that removing a sample is exact.
type IntSums struct{ XX, XY int64 }

// Add adds the sums of samples.
func (w *IntSums) Add(x IntSums) { w.XX, w.XY = w.XX+x.XX, w.XY+x.XY }

// TakeOff removes sums that were added.
func (w *IntSums) TakeOff(x IntSums) { w.XX, w.XY = w.XX-x.XX, w.XY-x.XY }

// Share is a share (0 to 1) of the sums.
func (w IntSums) Share(share float64) IntSums {
	return IntSums{int64(float64(w.XX) * share), int64(float64(w.XY) * share)}
}

// Line is a line with an intercept.
type Line struct{ N, X, Y, XX, XY Sum }

// Add keeps a share of the sums, and adds a weighted sample.
func (l *Line) Add(keep, weight, x, y float64) {
	l.N.Add(keep, weight, 1)
	l.X.Add(keep, weight, x)
	l.Y.Add(keep, weight, y)
	l.XX.Add(keep, weight, float64(x*x))
	l.XY.Add(keep, weight, float64(x*y))
}

// Slope is y per x. A prior slope weighs as much as samples with this total variance of x, which is above 0. There must
// be samples.
func (l *Line) Slope(prior, variance float64) float64 {
	n, x := float64(l.N), float64(l.X)
	spread := max(0, float64(l.XX)-float64(x*x)/n)
	slope := float64(l.XY) - float64(x*float64(l.Y))/n
	return (slope + float64(variance*prior)) / (spread + variance)
}

// Intercept is y at x = 0 on a line with this slope through the mean of the samples.
func (l *Line) Intercept(slope float64) float64 {
	return (float64(l.Y) - float64(slope*float64(l.X))) / float64(l.N)
}

// Plane is a plane through the origin: y over a and b.
type Plane struct{ AA, AB, BB, AY, BY Sum }

// Add keeps a share of the sums, and adds a weighted sample.
func (p *Plane) Add(keep, weight, a, b, y float64) {
	p.AA.Add(keep, weight, float64(a*a))
	p.AB.Add(keep, weight, float64(a*b))
	p.BB.Add(keep, weight, float64(b*b))
	p.AY.Add(keep, weight, float64(a*y))
	p.BY.Add(keep, weight, float64(b*y))
}

// Det is 0 if the samples do not separate a from b.
func (p *Plane) Det() float64 { return float64(p.AA*p.BB) - float64(p.AB*p.AB) }

// Slopes are y per a and y per b. Det must not be 0.
func (p *Plane) Slopes() (a, b float64) {
	det := p.Det()
	a = (float64(p.AY*p.BB) - float64(p.BY*p.AB)) / det
	b = (float64(p.BY*p.AA) - float64(p.AY*p.AB)) / det
	return a, b
}

// SlopeA is y per a for a given y per b. There must be samples with an a.
func (p *Plane) SlopeA(b float64) float64 {
	return (float64(p.AY) - float64(b*float64(p.AB))) / float64(p.AA)
}

// SlopeB is y per b for a given y per a. There must be samples with a b.
func (p *Plane) SlopeB(a float64) float64 {
	return (float64(p.BY) - float64(a*float64(p.AB))) / float64(p.BB)
}
