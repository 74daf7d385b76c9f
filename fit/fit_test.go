package fit_test

import (
	"math"
	"testing"

	"github.com/warmpath/warmpath/fit"
	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(a)+math.Abs(b)) }

// TestFitsFindWhatIsThere: samples without noise give the line or plane that they are on, whatever was forgotten and
// however they weigh.
func TestFitsFindWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slope, other, start := rapid.Float64Range(-5, 5).Draw(t, "slope"), rapid.Float64Range(-5, 5).Draw(t, "other"),
			rapid.Float64Range(-50, 50).Draw(t, "start")
		keep := rapid.Float64Range(0.5, 1).Draw(t, "keep")
		var ratio fit.Ratio
		var line fit.Line
		var plane fit.Plane
		for i := range 20 {
			x, b, w := float64(1+i%7), float64(1+i%3), rapid.Float64Range(0.5, 2).Draw(t, "weight")
			ratio.Add(keep, w, x, float64(slope*x))
			line.Add(keep, w, x, start+float64(slope*x))
			plane.Add(keep, w, x, b, float64(slope*x)+float64(other*b))
		}
		if got := ratio.Slope(); !near(got, slope) {
			t.Fatalf("a ratio of %v, want %v", got, slope)
		}
		if got := line.Slope(100, 1e-9); !near(got, slope) || !near(line.Intercept(got), start) {
			t.Fatalf("a line %v + %v x, want %v + %v x", line.Intercept(got), got, start, slope)
		}
		if a, b := plane.Slopes(); !near(a, slope) || !near(b, other) || !near(plane.SlopeA(b), slope) ||
			!near(plane.SlopeB(a), other) {
			t.Fatalf("a plane of %v and %v, want %v and %v", a, b, slope, other)
		}
	})
}

// TestPriorSlope: without variance in x a line has the slope that was assumed, with as much as that counts for it is
// halfway.
func TestPriorSlope(t *testing.T) {
	var l fit.Line
	for range 5 {
		l.Add(1, 1, 10, 30)
	}
	if got := l.Slope(7, 2); got != 7 {
		t.Errorf("samples at one x have a slope of %v, want the 7 that was assumed", got)
	}
	l = fit.Line{}
	l.Add(1, 1, 9, 9)
	l.Add(1, 1, 11, 11)
	if got := l.Slope(7, 2); got != 4 {
		t.Errorf("a slope of 1 and as much of an assumed one of 7 make %v, want 4", got)
	}
}

// TestForgets: a sample counts for less with each later one.
func TestForgets(t *testing.T) {
	var s fit.Sum
	s.Add(0.5, 2, 8)
	s.Add(0.5, 1, 1)
	if s != 9 {
		t.Errorf("half of 16 and 1 are %v", s)
	}
	var m fit.Mean
	m.Add(0.25, 8)
	if m.Add(0.25, 4); m != 7 {
		t.Errorf("a mean of 8 is %v after a sample of 4, want 7", m)
	}
	m = 0
	if m.Move(0.25, 8); m != 2 {
		t.Errorf("a mean of 0 moves to %v, want 2", m)
	}
}

// TestQuantile: as many samples as said are above it in the end.
func TestQuantile(t *testing.T) {
	for _, share := range []float64{0.1, 0.35, 0.5, 0.9} {
		q := fit.Quantile(1)
		for i := range 20000 {
			q.Add(share, 0.01, 0.001, float64(i*7919%1000))
		}
		if got := 1 - float64(q)/1000; math.Abs(got-share) > 0.05 {
			t.Errorf("%v of the samples are above, want %v", got, share)
		}
	}
	q := fit.Quantile(1)
	for range 2000 {
		q.Add(0.5, 0.1, 0.25, 0)
	}
	if q != 0.25 {
		t.Errorf("it sinks to %v, below its least", q)
	}
}

// TestWholeIsTakenOff: nothing is left of samples that are taken off, in whatever order and parts.
func TestWholeIsTakenOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all fit.IntSums
		samples := rapid.SliceOf(rapid.Custom(func(t *rapid.T) fit.IntSums {
			return fit.IntSums{XX: rapid.Int64Range(0, 1e16).Draw(t, "xx"), XY: rapid.Int64Range(0, 1e16).Draw(t, "xy")}
		})).Draw(t, "samples")
		for _, s := range samples {
			all.Add(s)
		}
		for i := len(samples) - 1; i >= 0; i-- {
			part := samples[i].Share(rapid.Float64Range(0, 1).Draw(t, "share"))
			all.TakeOff(samples[i])
			all.Add(part)
			all.TakeOff(part)
		}
		if all != (fit.IntSums{}) {
			t.Fatalf("%+v is left", all)
		}
	})
}
