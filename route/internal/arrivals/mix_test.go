package arrivals

import (
	"math"
	"testing"
)

// TestMix: before any turn two later ones are assumed; after hundreds the assumption has decayed; one outlier moves the
// mean little.
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

// TestMixRestored: counts of a state file that forgot more slowly, or that mean nothing, leave the forecast between
// what they say and what is assumed.
func TestMixRestored(t *testing.T) {
	for _, c := range [][3]float64{
		{20, 80, 500},
		{30, 120, 500},
		{1, 199, 500},
		{0.5, 1000, 500},
		{1e6, 3e6, 500},
		{-3, 40, 500},
		{40, -3, 500},
		{-100, -100, -1},
		{1e308, 1e308, 500},
		{math.NaN(), 1, 1},
		{1, 1, math.NaN()},
	} {
		var m Mix
		m.Restore(c)
		later, tokens := m.Expect(0)
		if n := m.firsts + m.laters; !(n >= 0 && n <= 100.001) || !(later >= 0 && later <= 2000) ||
			!(tokens >= 0 && tokens <= 500) {
			t.Errorf("%v: %v later turns of %v tokens, %v counted", c, later, tokens, n)
		}
		if kept := c[1] / c[0]; c[0] >= 1 && c[1] >= 1 && m.firsts > 0 && math.Abs(m.laters/m.firsts-kept) > 1e-9*kept {
			t.Errorf("%v: the share of later turns is %v", c, m.laters/m.firsts)
		}
	}
}
