package cache

import (
	"testing"

	"github.com/warmpath/warmpath/fit"
)

// TestUnitsOfAnotherEngine: the unit of an engine that was started again is learnt anew, whether it is larger or
// smaller, and kept in snapshots.
func TestUnitsOfAnotherEngine(t *testing.T) {
	table := New(0)
	table.AddEndpoint(0)
	e := func() *endpoint { return table.endpoints.Get(0) }
	for _, unit := range []int{512, 2048, 1024} {
		for i := range 3 * fit.Enough {
			predicted := (3+i)*unit - 100
			e().grain.learn(predicted, predicted-predicted%unit, 16)
		}
		if got := e().grain.block(16); got != unit {
			t.Errorf("units of %d tokens are taken for %d", unit, got)
		}
		kept := table.Export(0)
		after := New(0)
		after.AddEndpoint(0)
		after.Restore(0, &kept)
		if was, is := e().grain, after.endpoints.Get(0).grain; was != is {
			t.Errorf("after a snapshot %+v, want %+v", is, was)
		}
		table.Lost(0)
	}
}
