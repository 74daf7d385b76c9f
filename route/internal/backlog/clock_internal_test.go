package backlog

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/instant/clockset"
)

// TestClockThatIsSet: of two prompts alike the one that came first goes first, whatever the clock says since.
func TestClockThatIsSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		for _, told := range []bool{false, true} { // by other routers, how far the clock is behind
			b, now := New(Config{Patience: 5}, nil), time.Now()
			if b.clock.start(now); told {
				b.SetClock(now, time.Second)
			}
			first, second := b.key(now, 1), b.key(clockset.By(by, now.Add(time.Minute)), 1)
			if got := second - first; got < 11_999 || got > 12_001 {
				t.Errorf("set by %v: a minute later is %v in keys, want %v", by, got, 60_000/5)
			}
			if told {
				b.SetClock(clockset.By(by, now.Add(time.Minute)), time.Second-by)
				if again := b.key(clockset.By(by, now.Add(time.Minute)), 1); again-second > 1 || second-again > 1 {
					t.Errorf("set by %v: a key is %v, and %v when it is told again", by, second, again)
				}
			}
		}
	}
}
