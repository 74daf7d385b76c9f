package arrivals

import (
	"math"
	"testing"
)

// TestMix: before any turn two later ones are assumed; after hundreds the assumption has decayed; one outlier moves the mean
// little.
func TestMix(t *testing.T) {
	var m Mix
	if later, tokens := m.Expect(0); later != 2 || tokens != 0 {
		t.Errorf("at first: %v later turns of %v tokens", later, tokens)
	}
	for i := range 2000 {
		m.Add(i%5 == 0, 100)
	}
	if later, tokens := m.Expect(0); math.Abs(later-4) > 0.2 || math.Abs(tokens-100) > 1e-9 {
		t.Errorf("after 2,000 turns: %v later turns of %v tokens, want 4 of 100", later, tokens)
	}
	m.Add(false, 1_000_000)
	if _, tokens := m.Expect(0); tokens > 200 {
		t.Errorf("one prompt of a million tokens makes the mean %v", tokens)
	}
}
