package peers

import (
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/instant"
)

// clock is the fleet's time, which never goes back. Where somebody sets this router's own clock it goes on evenly: the
// others would take the router for gone.
type clock struct {
	ahead atomic.Int64 // of this router's steady time, in ns
}

// of is the fleet's time at a moment.
func (c *clock) of(at time.Time) time.Time {
	return instant.Steady(at).Add(time.Duration(c.ahead.Load()))
}

// now is the fleet's time.
func (c *clock) now() time.Time { return c.of(time.Now()) }

// local is the moment at which the fleet's time was that.
func (c *clock) local(said time.Time) time.Time {
	now := time.Now()
	return now.Add(said.Sub(c.of(now)))
}

// behind is how far this router's own clock is behind, as it is set now.
func (c *clock) behind() time.Duration {
	now := time.Now()
	return c.of(now).Round(0).Sub(now.Round(0))
}
