package route

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// TestOnlyTurnsAreLearntFrom: token counts and embeddings are placed, but teach nothing about conversations.
func TestOnlyTurnsAreLearntFrom(t *testing.T) {
	for class, learns := range map[fleet.Class]bool{fleet.Turn: true, fleet.Embed: false, fleet.Auxiliary: false} {
		r := freeRouter(2)
		c := *r.cfg
		c.Disaggregation.When = WhenTime
		r.Observe(time.Unix(1000, 0), Configured{Config: c})
		if _, err := r.Decide(time.Unix(1000, 0), &fleet.Request{Model: "m", Class: class, PromptTokens: 40, MintedID: "n", Splits: false}); err != nil {
			t.Fatal(err)
		}
		if got := r.pools.Reader().Named("m").Learnt().Turns != [3]float64{}; got != learns {
			t.Errorf("class %v is learnt from: %v", class, got)
		}
	}
}
