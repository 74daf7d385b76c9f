package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// Event is an input of the router besides requests. The set is closed.
type Event interface{ event() }

// Declared replaces the endpoints of one discovery source by a full snapshot. Names are unique over all sources: of a
// name that several declare the first declaration applies, which is reported. Once its source gives it up, the next one
// does.
type Declared struct {
	Source    string // "static", "file", "dns", "admin", ...
	Endpoints []fleet.Endpoint
	Partly    bool     // it is a step of a long snapshot: of the source's other endpoints
	Left      []string // of a step: only these leave
	Gently    bool     // of a step: those that join ramp up, since the fleet ran when the snapshot came
}

// Probed is a report on one endpoint.
type Probed struct {
	Endpoint string
	// address that was asked; "" for the endpoint's present one. A report on an address that the endpoint's name had
	// before is of the engine there, for as long as that has requests
	URL    string
	Report fleet.Report
	// when the latest question that was answered was put; zero for just now. A good report says nothing of an endpoint
	// to which a connection has failed since
	Asked time.Time
}

// Drain stops new traffic to an endpoint, or with Off resumes it; running requests continue.
type Drain struct {
	Endpoint string
	Off      bool
}

// FirstByte means that the answer's first data arrived: prefill of this lease is done.
type FirstByte struct{ Lease fleet.Lease }

// ResponseStarted gives the id of a response that an endpoint is still making, by which a client may read or cancel it.
type ResponseStarted struct {
	Lease    fleet.Lease
	Response string
}

// Transferring means that a decode leg's prompt has been computed and its decoder asked: the KV transfer begins.
type Transferring struct{ Lease fleet.Lease }

// StreamsAlive are the times at which data of running streams last arrived: signs of life of the engines that they are
// at, and of their services, by which models of one endpoint are told apart. The router also looks for silent endpoints
// then, so it should get the event about every second while requests run.
type StreamsAlive struct {
	Signs []Sign
}

// Sign is when data of a running stream last arrived.
type Sign struct {
	Lease fleet.Lease
	At    time.Time
}

// Finished ends a lease. Each lease ends once; a second Finished is counted and ignored.
type Finished struct {
	Lease      fleet.Lease
	Outcome    fleet.Outcome
	RetryAfter time.Duration // with Busy: the engine's Retry-After; 0 for none
	Limited    bool          // with Busy: the status was 429, which may concern the request's Caller only
	// with EngineError and TimedOut: the request may be at fault itself, since it has failed alike at another endpoint,
	// or since the engine ends answers early for what they say
	Excused bool
	// with EngineError: the requests at the engine did not fit in its memory together, so that it failed all of them
	Overfull bool
	Usage    fleet.Usage
	Response string // id of the response that the endpoint now holds; "" for none
	Absent   bool   // with ClientError: the engine does not have Request.Path
	Refused  bool   // with ConnectFailed: the port refused the connection, so the process has ended
}

// Configured replaces the configuration, which must pass Validate. Learnt state, running requests and endpoints stay.
// With Policies each pool gets new policies without state; otherwise pools keep theirs.
type Configured struct {
	Config   Config
	Policies bool
}

// Closed means that a conversation is over: it is forgotten, and its place is free, at once or after its running turns.
type Closed struct {
	Tenant, Session string
	Pools           []string // where it may be, see Router.Pools
}

func (Declared) event()        {}
func (Probed) event()          {}
func (Drain) event()           {}
func (FirstByte) event()       {}
func (ResponseStarted) event() {}
func (Transferring) event()    {}
func (StreamsAlive) event()    {}
func (Finished) event()        {}
func (Configured) event()      {}
func (Closed) event()          {}

// Entry is one line of the log of all inputs and outputs of the router. Listeners get entries in order; they must copy
// what they keep beyond the call.
type Entry struct {
	Now time.Time

	// A decision: Request is set, and either Err, or Hold, or Decision, Prefill or both.
	Request  *fleet.Request
	Decision *Decision
	Prefill  *Decision // of the prefill leg of a request that is split
	// it is held before it is placed; the hold ends with Finished, or with a decision of Request.Hold
	Hold *Hold
	Err  error
	View *pick.View // what the policy saw; nil without a Decision and for split requests

	// An observation: Event is set; Ended too if it ended a lease, Changes if endpoints changed state.
	Event      Event
	Ended      *Ended // valid until the next observation
	Changes    []Change
	News       []News        // for other routers, of a decision too, see Config.Replicas. Valid until the next call
	Dispatched []fleet.Lease // queued requests that are to be sent now. Valid until the next observation
	More       bool          // there may be more of them: a Tick is to follow
	Closed     bool          // of a Closed: the conversation was known
	Gone       []uint64      // Candidate.Key of endpoints that have left or are another engine now
}

// Ended is the record of one attempt: the decision and the result.
type Ended struct {
	Request   string // X-Request-Id
	Decision  Decision
	Class     fleet.Class
	Routed    time.Time
	Sent      time.Time // later than Routed by the time in the queue; zero if it was never sent
	FirstByte time.Time // zero when the answer had no data
	Outcome   fleet.Outcome
	Usage     fleet.Usage
	Stream    bool // the client asked for a stream

	Miss fleet.Miss // why it was not in the cache; zero unless Config.Explain
	Home string     // the conversation's home before the decision; "" for none
	// the chosen one first, then the best others by cost, at most 15; nil unless Config.Explain. Valid until the next
	// observation
	Candidates []pick.Candidate
	Costs      []Costs // of each of them
	// in which their terms are reckoned: choice, split or request (package cost), policy (ScopeOfPolicy); "" where
	// there are none
	Scope string
}

// Change is an endpoint's change of state, for the operator's log.
type Change struct {
	Endpoint string
	From, To fleet.State
	Detail   string
}
