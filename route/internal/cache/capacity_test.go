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
		x.limit(0, x.endpoints.Get(0), 0.25)
		if all, near := x.index.Capacity(0), x.near.Capacity(0); all > most || near > most || near < all {
			t.Errorf("of %d tokens %d blocks and %d in its own memory are remembered, want at most %d",
				tokens, all, near, most)
		}
	}
}
