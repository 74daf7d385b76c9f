package route

import (
	"math"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// TestOnlyTurnsAreLearntFrom: token counts and embeddings are placed, but teach nothing about conversations.
func TestOnlyTurnsAreLearntFrom(t *testing.T) {
	for class, learns := range map[fleet.Class]bool{fleet.Turn: true, fleet.Embed: false, fleet.Auxiliary: false} {
		r := freeRouter(2)
		c := *r.cfg
		c.Disaggregation.When = fleet.WhenTime
		r.Observe(time.Unix(1000, 0), Configured{Config: c})
		if _, err := r.Decide(time.Unix(1000, 0), &fleet.Request{
			Model: "m", Class: class, PromptTokens: 40, MintedID: "n", Splits: false,
		}); err != nil {
			t.Fatal(err)
		}
		if got := r.pools.Named("m").Export().Turns != [3]float64{}; got != learns {
			t.Errorf("class %v is learnt from: %v", class, got)
		}
	}
}

// TestLeasesWrap: however often a reservation was used, its lease is none of admission's, and ends once.
func TestLeasesWrap(t *testing.T) {
	r, now := freeRouter(2), time.Unix(1000, 0)
	place := func() fleet.Lease {
		d, err := r.Decide(now, &fleet.Request{Model: "m", PromptTokens: 40, MintedID: "n"})
		if err != nil {
			t.Fatal(err)
		}
		return d.Lease
	}
	end := func(l fleet.Lease) bool { return r.Observe(now, Finished{Lease: l}).Ended != nil }
	first := place()
	end(first)
	r.reservations[0].generation = math.MaxInt32 - 1
	last := place()
	if last>>63 != 0 || !end(last) || end(last) {
		t.Errorf("lease %x does not end once", uint64(last))
	}
	if again := place(); again == 0 || again>>63 != 0 || !end(again) || r.Stats().DoubleFinished != 1 {
		t.Errorf("lease %x does not end once, %d ended twice", uint64(again), r.Stats().DoubleFinished)
	}
}
