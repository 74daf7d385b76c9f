package kvstream_test

import (
	"math"
	"testing"

	"github.com/warmpath/warmpath/kvstream"
)

// TestLostNeverRunsOver: whatever numbers an engine gives its messages, the counter of lost ones only rises.
func TestLostNeverRunsOver(t *testing.T) {
	s, last := kvstream.New(0), uint64(0)
	for i := range 100 {
		if i%2 == 0 {
			s.Lose(math.MaxUint64 - uint64(i))
		} else {
			s.Reset(false, math.MaxUint64)
		}
		if now := s.Counts().Missing; now <= last {
			t.Fatalf("%d after %d", now, last)
		} else {
			last = now
		}
	}
	if last > 1<<40 {
		t.Errorf("%d messages in 100 gaps", last)
	}
}
