package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Event is something the router is told. The set is closed.
type Event interface{ event() }

// Declared replaces the endpoints of one discovery source by a full snapshot. Names are unique over all sources: a
// name that another source declared first is refused and reported by Router.Refused.
type Declared struct {
	Source    string // "static", "file", "dns", "admin", ...
	Endpoints []fleet.Endpoint
}

// Probed reports on one endpoint.
type Probed struct {
	Endpoint string
	Report   fleet.Report
}

// Drain stops (or, with Off, resumes) new traffic to an endpoint; what runs there ends in its own time.
type Drain struct {
	Endpoint string
	Off      bool
}

// FirstByte says that the answer's first data arrived: the prefill of this lease is done.
type FirstByte struct{ Lease fleet.Lease }

// Holding says under which id an endpoint holds a response that it is still making: a client that has read so much of it may ask for it, or cancel it.
type Holding struct {
	Lease    fleet.Lease
	Response string
}

// Transferring says that the prompt of a decode leg has been computed and its KV cache is on its way: the decoder has been asked.
type Transferring struct{ Lease fleet.Lease }

// Signs are the endpoints' signs of life that no other event tells: when data of a stream under way last came. It is also the occasion on
// which endpoints are looked for that give none, so it is to be told every second or so while there are requests.
type Signs struct{ At map[string]time.Time } // by name

// Finished ends a lease. Each lease is finished exactly once; a second Finished is counted and ignored.
type Finished struct {
	Lease      fleet.Lease
	Outcome    fleet.Outcome
	RetryAfter time.Duration // with Busy: how long the engine asked for, 0 when it did not say
	Limited    bool          // with Busy: it was 429, which may speak of the request's Caller alone
	Alike      bool          // with EngineError and TimedOut: the request has failed so at another endpoint, and may be at fault itself
	Usage      fleet.Usage
	Response   string // id under which the endpoint now holds a response, "" for none
}

// Closed forgets a conversation.
type Closed struct {
	Tenant, Model, Session string
}

func (Declared) event()     {}
func (Probed) event()       {}
func (Drain) event()        {}
func (FirstByte) event()    {}
func (Holding) event()      {}
func (Transferring) event() {}
func (Signs) event()        {}
func (Finished) event()     {}
func (Closed) event()       {}
