package arrivals

import (
	"math"
	"testing"
)

// TestMix: before any turn two later ones are assumed; after hundreds the assumption has decayed.
func TestMix(t *testing.T) {
	var m Mix
	if later := m.LaterTurns(0); later != 2 {
		t.Errorf("at first: %v later turns", later)
	}
	for i := range 2000 {
		m.Add(i%5 == 0)
	}
	if later := m.LaterTurns(0); math.Abs(later-4) > 0.2 {
		t.Errorf("after 2,000 turns: %v later turns, want 4", later)
	}
}
