package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

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
