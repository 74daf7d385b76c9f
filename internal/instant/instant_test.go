package instant_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/instant"
	"github.com/warmpath/warmpath/internal/instant/clockset"
)

// TestClockThatIsSet: the time between two instants, or two steady times, is that which passed, whatever the clock
// says.
func TestClockThatIsSet(t *testing.T) {
	now := time.Now()
	for _, d := range []time.Duration{0, time.Second, -time.Second, 24 * time.Hour, -24 * time.Hour} {
		later := clockset.By(d, now.Add(time.Minute))
		if by := time.Duration(later.UnixNano() - now.UnixNano()); by != time.Minute+d {
			t.Fatalf("the clock was set by %v, want %v", by-time.Minute, d)
		}
		if got := time.Duration(instant.Of(later) - instant.Of(now)); got != time.Minute {
			t.Errorf("the clock was set by %v: %v between the instants, want a minute", d, got)
		}
		if got := instant.Steady(later).UnixNano() - instant.Steady(now).UnixNano(); got != int64(time.Minute) {
			t.Errorf("the clock was set by %v: %v between the steady times, want a minute", d, time.Duration(got))
		}
	}
	if instant.Of(now) < int64(24*time.Hour) {
		t.Error("0 is not long ago")
	}
	if got := instant.Time(instant.Of(now)); got.Sub(now) != 0 || got.Round(0).Sub(now.Round(0)).Abs() > time.Second {
		t.Errorf("%v is %v again", now, got)
	}
}
