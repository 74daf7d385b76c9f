package route

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/arrivals"
)

// TestOnlyTurnsAreLearntFrom: token counts and embeddings are placed, but teach nothing about conversations.
func TestOnlyTurnsAreLearntFrom(t *testing.T) {
	for class, learns := range map[fleet.Class]bool{fleet.Turn: true, fleet.Embed: false, fleet.Aside: false} {
		r := freeRouter(2)
		r.cfg.Disaggregation.When = WhenTime
		if _, err := r.Decide(time.Unix(1000, 0), &fleet.Request{Model: "m", Class: class, PromptTokens: 40, MintedID: "n", Splits: false}); err != nil {
			t.Fatal(err)
		}
		if got := r.pools["m"].turns != (arrivals.Mix{}); got != learns {
			t.Errorf("class %v is learnt from: %v", class, got)
		}
	}
}
