package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// EndpointStatus is the router's knowledge of one endpoint, for display and metrics.
type EndpointStatus struct {
	Endpoint fleet.Endpoint
	Kind     fleet.Kind // declared or recognised
	Source   string
	State    fleet.State
	Detail   string    // why it is down, ejected or busy
	Until    time.Time // end of the ejected or busy state
	Draining bool
	Gone     bool    // has left; its last requests are running
	Ramp     float64 // share of its weight while it ramps up, 0 to 1
	Load     fleet.Load
	Report   fleet.Report // the latest of each figure
	Models   []fleet.Model
	Requests uint64 // requests sent to it since it was declared
	Failures uint64 // failed requests blamed on it
	Silent   bool   // ejected for silence: requests waiting there should be retried elsewhere

	KV KVFigures // from its KV events

	CacheLosses uint64  // times that its cache was lost: the process restarted or slept, or its events said so
	CacheTokens int64   // assumed capacity of its cache, from reports and observed hits; 0 before the first request
	CacheFilled float64 // share of that which is believed to hold blocks, 0 to 1
	// tokens of the conversations whose turns go on at once there, see Config.Admission; 0 unknown
	WorkingSet    int64
	WorkingRoom   int64   // tokens of its cache for them; 0 where nothing is held
	PrefillPerSec float64 // learnt prefill speed in tokens per second; 0 before the first answer

	PromptMs float64 // predicted time until the prompts that it was sent are computed
	WaitMs   float64 // predicted time until a prompt is computed that comes now, behind all that waits
	Places   int     // requests that it computes concurrently; 0 unknown
	KVUsage  float64 // share of its KV cache in use by running requests, as it reports or else by this router's; -1 unknown

	// Of decoders, learnt; both are 0 before the first transfer.
	TransferMs     float64 // time from hand-over to the first token if nothing had to be moved
	TransferPerSec float64 // prompt tokens moved per second
}

// Models lists the models and aliases, sorted by id, without the alias "*".
func (r *Router) Models() []ModelStatus { return r.pools.Reader().Models() }
