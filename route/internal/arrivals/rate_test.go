package arrivals

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// TestRate: evenly spaced turns give their rate, up to 1.4 times (see PerMs), over the whole window once it is filled,
// and over its filled part before.
func TestRate(t *testing.T) {
	const each = 100 * time.Millisecond
	var s Turns
	start := time.Unix(1000, 0)
	if r, w := s.PerMs(start), s.Watched(start); r != 0 || w != 0 {
		t.Errorf("before the first turn: %v a ms, watched %v", r, w)
	}
	now := start
	for _, until := range []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second, 3 * time.Minute} {
		for ; now.Before(start.Add(until)); now = now.Add(each) {
			s.Add(now)
		}
		want := 1 / fleet.Ms(each)
		if got := s.PerMs(now) / s.Watched(now); got < want || got > 1.4*want {
			t.Errorf("after %v: %.4f turns a ms, want %.4f to %.4f", until, got, want, 1.4*want)
		}
	}
	if w := s.Watched(now); w < 0.99 {
		t.Errorf("after three minutes %.2f of the window has been watched", w)
	}
}
