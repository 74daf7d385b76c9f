package route

import (
	"time"

	"github.com/warmpath/warmpath/route/backlog"
)

// Queue says how the router queues an endpoint's prompts. The zero value queues none: all are sent as they come.
type Queue = backlog.Queue

// The defaults where prompts are queued.
const (
	DefaultAhead    = backlog.DefaultAhead
	DefaultPatience = backlog.DefaultPatience
)

// ms is a duration in milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return backlog.Ms(d) }
