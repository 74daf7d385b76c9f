package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// EndpointStatus is what the router knows about one endpoint, for people and for metrics.
type EndpointStatus struct {
	Endpoint fleet.Endpoint
	Kind     fleet.Kind // stated or recognised
	Source   string
	State    fleet.State
	Detail   string    // why it is down, ejected or busy
	Until    time.Time // when ejected or busy ends
	Draining bool
	Gone     bool    // no longer declared; waits for its last requests
	Ramp     float64 // 0..1: share of its weight while it is taken in gently after coming back
	Load     fleet.Load
	Report   fleet.Report // the latest of each figure
	Models   []fleet.Model
	Requests uint64 // requests sent to it since it was declared
	Failures uint64 // requests that failed by its fault
	Silent   bool   // it is ejected because it gives no sign of life: what waits there waits in vain

	KV KVFigures // what its KV events say

	CacheLosses   uint64  // times that its answers showed it to have lost its cache
	CacheTokens   int64   // what its cache is taken to hold, by what it tells and what proves to be there; 0 before the first request
	PrefillPerSec float64 // prompt tokens computed a second, learnt; 0 before the first answer

	// Of what decodes what others computed, learnt; both are 0 before the first transfer.
	TransferMs     float64 // until KV cache from elsewhere is there and the first token made, if nothing had to be moved
	TransferPerSec float64 // prompt tokens moved a second
}
