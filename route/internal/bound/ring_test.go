package bound

import (
	"slices"
	"testing"
)

func TestRing(t *testing.T) {
	var r Ring[int]
	for i, want := range []int{0, 0, 0, 1, 2} {
		x := r.Next(3)
		if *x != want {
			t.Errorf("value %d takes the place of %d, want %d", i+1, *x, want)
		}
		*x = i + 1
	}
	var latest []int
	for x := range r.Latest(2) {
		latest = append(latest, *x)
	}
	if !slices.Equal(latest, []int{4, 5}) || !slices.Equal(r.All(), []int{4, 5, 3}) || r.Count() != 5 {
		t.Errorf("latest %v of %v, %d in all", latest, r.All(), r.Count())
	}
}
