package timeouts

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestTrialIsNotGivenUp: what waits at a silent endpoint moves to another one, but not a request sent after the latest
// look: the ejection has ended since, and the request finds out whether the endpoint answers again.
func TestTrialIsNotGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		looked time.Duration // when, from the time at which the request was sent
		others int
		want   error
	}{
		{"sent before the look", time.Millisecond, 1, ErrSilent},
		{"sent after the look", -time.Millisecond, 1, nil},
		{"no other endpoint", time.Millisecond, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWatch(context.Background(), "e0", "m", true)
			w.Wait(time.Hour)
			gone := &Unreachable{
				looked: w.Moved().Add(tt.looked).UnixNano(), endpoints: map[string]error{"e0": ErrSilent},
				up: map[string]int{"m": tt.others},
			}
			if got := w.Overdue(w.Moved().Add(time.Second), gone, time.Minute, false); !errors.Is(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
