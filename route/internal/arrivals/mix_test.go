package arrivals

import (
	"math"
	"testing"

	"github.com/warmpath/warmpath/pick"
)

// TestMix: before any turn two later ones are assumed; after hundreds the assumption has decayed; one outlier moves the mean
// little.
func TestMix(t *testing.T) {
	var m Mix
	var v pick.View
	if m.Expect(&v, 0); v.LaterTurns != 2 || v.TurnTokens != 0 {
		t.Errorf("at first: %v later turns of %v tokens", v.LaterTurns, v.TurnTokens)
	}
	for i := range 2000 {
		m.Add(i%5 == 0, 100)
	}
	if m.Expect(&v, 0); math.Abs(v.LaterTurns-4) > 0.2 || math.Abs(v.TurnTokens-100) > 1e-9 {
		t.Errorf("after 2,000 turns: %v later turns of %v tokens, want 4 of 100", v.LaterTurns, v.TurnTokens)
	}
	m.Add(false, 1_000_000)
	if m.Expect(&v, 0); v.TurnTokens > 200 {
		t.Errorf("one prompt of a million tokens makes the mean %v", v.TurnTokens)
	}
}
