package drive

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHistogram: percentiles are those of the sorted times, to a thousandth.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Histogram
		times := rapid.SliceOfN(rapid.Int64Range(0, int64(10*time.Hour)), 1, 50).Draw(t, "times")
		slices.Sort(times)
		var sum int64
		for _, x := range times {
			h.add(time.Duration(x))
			sum += time.Duration(x).Microseconds()
		}
		for _, percent := range []int64{50, 90, 99} {
			n := int64(len(times))
			want, got := float64(time.Duration(times[(n*percent+99)/100-1]).Microseconds())/1000, h.Rank(percent)
			if got > want || got < want*(1-1.0/1000)-0.001 {
				t.Fatalf("%d %%: %v, want %v", percent, got, want)
			}
		}
		if want := float64(sum/int64(len(times))) / 1000; want != h.Mean() {
			t.Fatalf("mean %v, want %v", h.Mean(), want)
		}
	})
}
