package trace

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestSmearing spreads the requests of a clock with three-second ticks, in order, and leaves a fine clock unchanged.
func TestSmearing(t *testing.T) {
	trace := excerpt(t, "mooncake_conversation")
	out := trace.smeared(rand.New(rand.NewPCG(1, 1)))
	distinct := map[time.Duration]bool{}
	for i, at := range out {
		distinct[at] = true
		if i > 0 && at < out[i-1] {
			t.Fatalf("request %d comes before the one in front of it", i)
		}
		if at < trace.Turns[i].At || at > trace.Turns[i].At+4*time.Second {
			t.Errorf("request %d of %v comes at %v", i, trace.Turns[i].At, at)
		}
	}
	if len(distinct) < 140 {
		t.Errorf("%d distinct times of 150", len(distinct))
	}
	fine := excerpt(t, "mooncake_synthetic")
	for i, at := range fine.smeared(rand.New(rand.NewPCG(1, 1))) {
		if at != fine.Turns[i].At {
			t.Fatalf("request %d moved from %v to %v", i, fine.Turns[i].At, at)
		}
	}
}
