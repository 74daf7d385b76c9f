package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// Entry is one line of the log of everything the router was told and answered. Listeners hear it in order; it may not
// be kept past the call without copying what it points to.
type Entry struct {
	Now time.Time

	// A routing: Request is set, and either Err or Decision, Prefill or both.
	Request  *fleet.Request
	Decision *Decision
	Prefill  *Decision // of the prefill leg of a request that is split
	Err      error
	View     *pick.View // what the policy saw; nil without a Decision, and of requests that are split

	// An observation: Event is set; Ended too when it ended a lease, Changes when endpoints changed state.
	Event   Event
	Ended   *Ended // valid until the next observation
	Changes []Change
	Called  []fleet.Lease // of those in line whose turn it is: they may be sent. Valid until the next observation
}

// Ended is the story of one attempt: what was decided, and what became of it.
type Ended struct {
	Request   string // X-Request-Id
	Decision  Decision
	Class     fleet.Class
	Routed    time.Time
	Sent      time.Time // later than Routed by as long as it stood in line; zero when its turn never came
	FirstByte time.Time // zero when the answer had no data
	Outcome   fleet.Outcome
	Usage     fleet.Usage
	Stream    bool // the answer was wanted as it is made
	LostCache bool // it showed that the endpoint had lost its cache without being seen to restart

	Home       string           // the conversation's endpoint before the decision, "" when there was none
	Candidates []pick.Candidate // the chosen one first, then the best others by cost, at most 15; nil unless Config.Explain. Valid until the next observation
}

// Change is an endpoint's change of state, worth a line in the log of the operator.
type Change struct {
	Endpoint string
	From, To fleet.State
	Detail   string
}
