package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// Decision is where a request goes, and why.
type Decision struct {
	Lease    fleet.Lease
	Endpoint fleet.Endpoint
	Kind     fleet.Kind // of the endpoint, declared or recognised
	Model    string     // name under which the endpoint serves the model
	Adapter  bool       // it is a LoRA adapter that the engine lists
	Pool     string     // name of the pool, a model or alias; "" for requests without a model
	Policy   string     // name of the policy that decided

	Session   string // conversation id to return: the client's own, or the minted one
	FirstTurn bool   // the conversation was unknown
	// is_first_turn of TensorRT-LLM PR 14744: the client named the conversation by an id that is not among the last
	// 100,000; false without an id
	NewID       bool
	Answered    bool             // the endpoint has answered under Request.Path since its process started
	Lost        bool             // with Answered: when it was asked last it lacked that path
	TellSession bool             // the endpoint is to be told Session, see fleet.Report.Sessions
	Precedence  fleet.Precedence // how the endpoint reads priorities
	Reason      pick.Reason
	Away        Away
	Candidates  int // how many endpoints were eligible
	Full        int // how many more would have been, had their caches room for the session, see Config.Admission
	// of an alias whose models are in order: those before Model, which were passed over. A conversation that keeps its
	// model has none
	Passed []PassedOver

	PromptTokens int // estimate for the whole prompt
	CachedTokens int // predicted to be in the endpoint's cache
	// predicted time to first token (Terms.TTFT); of a decode leg that of the prefill leg is added, whose prompt it
	// waits for. 0 when unknown
	TTFTMs float64

	Queued bool // it is queued: send it when its lease is in an Entry.Dispatched
	// it is queued since its tenant has as many requests at engines as it may (fleet.QueueClass.MaxRunning)
	AtLimit bool
	Greedy  bool // it is queued since the engine is full and its tenant has used much more than the others

	Held time.Duration // how long it was held before it was placed, see Config.Admission

	Leg       fleet.Leg
	Why       fleet.SplitWhy // why the request was split or not; "" where nothing is split
	Weighed   fleet.Weighed
	CacheGate pick.CacheGate // of a policy that has one

	Peer     fleet.Peer // learnt facts about the endpoint, for KV transfers
	Handover string     // of a prefill leg: see Report.Handover
}

// Away is another endpoint that has what the request needs, as far as is known, where the chosen one may lack that: it
// cannot take the request now. What the chosen one says of it is not the last word.
type Away struct {
	Endpoint string // "" for none
	Need     Need
}

// Need is something that not every endpoint of a model has.
type Need uint8

// What a request may need: the response that it refers to, as long a context, and its path.
const (
	NeedResponse Need = iota + 1
	NeedContext
	NeedPath
)

// Error is why the request cannot be answered now.
func (a *Away) Error(pool string) *NoEndpointError {
	has := [...]string{
		NeedResponse: "holds the response", NeedContext: "has a longer context", NeedPath: "serves the path",
	}[a.Need]
	return &NoEndpointError{
		Pool: pool, Why: a.Endpoint + " " + has + " and cannot take the request now", RetryAfter: time.Second,
	}
}

// AtHolder reports whether the endpoint is known to hold the response that the request refers to.
func (d *Decision) AtHolder() bool { return d.Reason == pick.ReasonHolder }

// Plan is where a request goes: whole to one endpoint, or split over two.
type Plan struct {
	Decision          // of the whole request, or of the decode leg; Lease is 0 if only a prefill leg was decided
	Prefill  Decision // of the prefill leg; Lease is 0 when there is none
	Hold     Hold     // nothing was placed yet, if its Lease is not 0
}

// Made is a plan, and what of the router's memory shows how it came about: that may be read until the router's next
// call, and must not be written.
type Made struct {
	Plan
	News []News     // for other routers, see Config.Replicas
	View *pick.View // what the policy saw; nil for a split request
}

// Entry is the log entry of the decision, which had this error.
func (p *Made) Entry(now time.Time, req *fleet.Request, err error) Entry {
	e := Entry{Now: now, Request: req, Err: err, View: p.View, News: p.News}
	if p.Hold.Lease != 0 {
		e.Hold = &p.Hold
	}
	if p.Lease != 0 {
		e.Decision = &p.Decision
	}
	if p.Prefill.Lease != 0 {
		e.Prefill = &p.Prefill
	}
	return e
}

// Hold is a request that waits before it is placed, so that the conversations under way keep their cache. When its
// lease is in an Entry.Dispatched, it is decided again, with Attempt.Hold. Finished ends the hold of a client that
// leaves.
type Hold struct {
	Lease fleet.Lease
	Pool  string
	Until time.Time // when it is called at the latest
}

// Split reports whether the request goes to two endpoints.
func (p *Plan) Split() bool { return p.Prefill.Lease != 0 }
