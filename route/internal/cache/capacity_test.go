package cache

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
)

// TestCapacitiesAreBounded: whatever cache an engine states, what is remembered of it has a bound, also of its own
// memory in front of a second tier.
func TestCapacitiesAreBounded(t *testing.T) {
	for tokens, most := range map[int64]int{1 << 20: mostBlocks - 1, 1 << 50: mostBlocks} {
		x := New(0)
		x.AddEndpoint(0)
		x.Describe(0, Facts{CacheTokens: tokens})
		x.Apply(time.Unix(0, 0), 0, 0, &reported.Batch{Ops: &kvstream.Ops{Tiers: true}, Size: 16}, time.Time{})
		x.limit(x.endpoints.Get(0), 0.25)
		if all, near := x.index.Capacity(0), x.near.Capacity(0); all > most || near > most || near < all {
			t.Errorf("of %d tokens %d blocks and %d in its own memory are remembered, want at most %d",
				tokens, all, near, most)
		}
	}
}

// TestKeepsMore: a cache keeps more than is believed once most of the conversations that had little predicted are found
// whole, and no longer once they are not. Those that had much predicted say nothing.
func TestKeepsMore(t *testing.T) {
	k := keeps{}
	learn := func(times, base, predicted, found int) {
		for range times {
			k.learn(&lease{base: base, cachedTokens: predicted}, found)
		}
	}
	for _, step := range []struct {
		what                          string
		times, base, predicted, found int
		want                          bool
	}{
		{"as predicted", 50, 8000, 8000, 8000, false},
		{"new ones", 50, 0, 0, 8000, false},
		{"a few found whole", 3, 8000, 0, 8000, false},
		{"more of them", 7, 8000, 3000, 7000, true},
		{"found in part", 40, 8000, 3000, 6000, false},
		{"found whole again", 40, 8000, 3000, 8000, true},
	} {
		learn(step.times, step.base, step.predicted, step.found)
		if got := k.more(); got != step.want {
			t.Errorf("%s: %t, want %t", step.what, got, step.want)
		}
	}
}
