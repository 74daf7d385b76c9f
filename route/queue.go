package route

import (
	"time"

	"github.com/warmpath/warmpath/route/internal/backlog"
)

// QueueConfig configures the router's queues. The zero value queues nothing: all prompts are sent at once.
type QueueConfig = backlog.QueueConfig

// The defaults where prompts are queued.
const (
	DefaultAhead    = backlog.DefaultAhead
	DefaultPatience = backlog.DefaultPatience
)

// ms converts a duration to milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return backlog.Ms(d) }
