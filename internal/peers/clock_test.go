package peers

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/instant/clockset"
)

// TestClockThatIsSet: the fleet's time, by which routers believe each other, goes on evenly.
func TestClockThatIsSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		var c clock
		c.ahead.Store(int64(time.Second))
		now := time.Now()
		told, later := c.of(now), c.of(clockset.By(by, now.Add(time.Minute)))
		if got := later.UnixMicro() - told.UnixMicro(); got != time.Minute.Microseconds() {
			t.Errorf("set by %v: %v passed in the fleet, want a minute", by, time.Duration(got)*time.Microsecond)
		}
		// what another router tells has no monotonic clock
		if got := c.local(time.UnixMicro(told.UnixMicro())).Sub(now).Abs(); got > time.Microsecond {
			t.Errorf("a moment of the fleet is %v off", got)
		}
	}
}
