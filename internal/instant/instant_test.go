package instant_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/warmpath/warmpath/internal/instant"
)

// set is the time that time.Now would return if the clock had been set by d, in whole seconds: of the first word of a
// time.Time that has a monotonic reading, the bits from the 30th on count the seconds since 1885.
func set(t time.Time, d time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(d/time.Second) << 30
	return t
}

// TestClockThatIsSet: the time between two instants is that which passed, whatever the clock says.
func TestClockThatIsSet(t *testing.T) {
	now := time.Now()
	for _, d := range []time.Duration{0, time.Second, -time.Second, 24 * time.Hour, -24 * time.Hour} {
		later := set(now.Add(time.Minute), d)
		if by := time.Duration(later.UnixNano() - now.UnixNano()); by != time.Minute+d {
			t.Fatalf("the clock was set by %v, want %v", by-time.Minute, d)
		}
		if got := time.Duration(instant.Of(later) - instant.Of(now)); got != time.Minute {
			t.Errorf("the clock was set by %v: %v between the instants, want a minute", d, got)
		}
	}
	if instant.Of(now) < int64(24*time.Hour) {
		t.Error("0 is not long ago")
	}
	if got := instant.Time(instant.Of(now)); got.Sub(now) != 0 || got.Round(0).Sub(now.Round(0)).Abs() > time.Second {
		t.Errorf("%v is %v again", now, got)
	}
}
