package cache

import (
	"math"
	"testing"

	"github.com/warmpath/warmpath/pick"
)

// TestFullMemoryHoldsNothing: where outstanding requests need all the memory there is, what a cache is believed to hold
// is taken to be gone.
func TestFullMemoryHoldsNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		full    bool
		tokens  int64 // of memory, as the engine tells; 0 unknown
		context int64 // of outstanding requests
		twice   int64 // of that, counted for several
		share   float64
		want    float64
	}{
		{"nothing has been pushed out", false, 100_000, 200_000, 0, 1, 0},
		{"the share that is missing of late", true, 100_000, 99_000, 0, 1, 800},
		{"all of it", true, 100_000, 100_000, 0, 1, 40_000},
		{"what they share takes room once", true, 100_000, 120_000, 30_000, 1, 800},
		{"host memory keeps it", true, 100_000, 120_000, 0, 4, 800},
		{"memory is not known", true, 0, 200_000, 0, 1, 800},
	} {
		e := &endpoint{
			overprediction: overprediction{missing: 1, n: 46}, facts: Facts{CacheTokens: c.tokens},
			outstanding: resident{prompts: c.twice}, capacity: capacity{share: c.share},
		}
		if got := e.expectedMiss(&pick.Cached{
			Full: c.full, Resident: e.residentTokens(c.context),
		}, 40_000); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v tokens of 40,000, want %v", c.name, got, c.want)
		}
	}
}
