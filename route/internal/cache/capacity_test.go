package cache

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestCapacityInBytes: an engine whose prompts have half a token a byte holds half as many blocks as its stated tokens would be at the
// model's mean of a quarter.
func TestCapacityInBytes(t *testing.T) {
	table := New(0)
	table.Enter(0)
	e := table.endpoints.Get(0)
	e.facts = Facts{CacheTokens: 640_000}
	table.limit(0, e, 0.25)
	mean := e.capacity.bound
	for range 100 {
		table.settle(&lease{bytes: 8000}, e, &Ended{Outcome: fleet.OK, Usage: &fleet.Usage{PromptTokens: 4000, OutputTokens: 1}})
	}
	table.limit(0, e, 0.25)
	if own := e.capacity.bound; mean == 0 || 100*own < 49*mean || 100*own > 51*mean {
		t.Errorf("%d blocks, %d at the mean", own, mean)
	}
}
