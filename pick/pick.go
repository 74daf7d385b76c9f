// Package pick is what a policy sees and answers: the View of one decision, a table with a row for each endpoint that may take the
// request, and the Choice.
//
// It owns these values and the interfaces of policies. A column of the table is filled in by one room of package route, and read by
// all. The package keeps no state and has no policy of its own.
package pick

import (
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Candidate is one endpoint that may take the request.
type Candidate struct {
	Name    string
	Key     uint64  // hash of Name: what hash policies rank by
	Slot    int     // small stable number of the endpoint, for tables that policies keep
	Weight  float64 // configured weight times Ramp; always above 0
	Ramp    float64 // share of its configured weight that it has yet, since it has come or come back: above 0, and mostly 1
	Load    fleet.Load
	Model   string     // what the endpoint would be asked for
	Kind    fleet.Kind // stated or recognised
	Adapter bool       // the model is a LoRA adapter
	Epoch   uint32     // of its cache: above 0, another one when that is known to be lost, and never that of another endpoint, not even of one of the same name that left

	CachedTokens int  // of this request's prompt, predicted to be in its cache
	Blocks       int  // of the prompt's kept blocks, those that it is believed to hold
	Present      int  // of Blocks, those that no decode leg is still to bring
	Exact        bool // CachedTokens was made of the engine's KV events

	PresentTokens int     // of CachedTokens, those that no decode leg is still to bring
	Unsure        float64 // of PresentTokens, or of CachedTokens in the view of a prefill leg, the tokens that are to be computed all the same, on average
	Resident      int64   // tokens that outstanding requests keep in its memory: prompts and answers to come, what prompts share counted once

	MsPerToken   float64 // time to compute one token of a prompt, learnt; above 0
	FixedMs      float64 // time to first token when there is nothing to compute, learnt
	WaitMs       float64 // until the prompts in front are computed and a place is free
	LinkMs       float64 // of WaitMs, for transfers that share a decoder's link; reckoned of decode legs only
	LineMs       float64 // of WaitMs, for those in line at the router
	Behind       int     // requests in line at the router that this one would go in front of
	TurnsPerMs   float64 // turns that it was given of late
	ReturnsPerMs float64 // conversations a millisecond that are at home there and expected to go on while this prompt waits and is computed; if one asks, see Awaiting
	Crowd        float64 // share of its places or of its KV memory, whichever is more, that outstanding requests take; 0 when neither is known
	DelayMs      float64 // what others wait for it: of a prefill leg those who are answered there, of a decode leg those that share the link
	CrowdMs      float64 // what one more request takes of that share, times how long it keeps it
	Busy         float64 // share of its time that it spends on prompts of late, 0 to 1
	Steady       float64 // the same over the last minutes: what the conversations that are there bring
	Prompts      int     // streams that it computes the prompts of, or has waiting
	Decoding     int     // requests that are being answered there, as far as can be told
	Full         bool    // its cache is believed to be full: what is added pushes something out

	ActiveTokens int64 // prompt tokens of outstanding requests, those that several share counted once; if View.Counted
	AddsTokens   int   // tokens of this prompt that are not among them; if View.Counted

	MsPerAnswer float64 // time for each token of an answer after the first, learnt; 0 unknown
	CacheTokens int64   // what its cache holds, as the engine tells; 0 unknown
	Slots       int     // requests that it computes at once; 0 unknown
	Queue       int     // requests that it computes or has waiting, by its latest report; -1 when not reported
	BlockTokens int     // tokens of one block of its cache, as the engine tells; 0 unknown
	KVUsage     float64 // share of its cache that running requests hold by its latest report, 0 to 1; -1 when not reported

	WeighedMs float64 // what the placement costs as a whole, where splitting without roles compares all pairs; -1 where it cannot be
	Terms     Terms   // filled in by policies that reckon in time
}

// Terms are what a placement is thought to cost, in ms. They add up to Cost.
type Terms struct {
	Wait     float64 // for prompts in front of this one, and for a place
	Prefill  float64 // for the part of the prompt that is not cached
	Transfer float64 // for the KV cache of what is computed elsewhere, of decode legs
	Fixed    float64 // for an answer's first token when nothing has to be computed
	Others   float64 // what those who come after have to wait for it, and those who are answered there
	Spread   float64 // for having been given more new conversations than its share
}

// Cost is the sum of the terms.
func (t *Terms) Cost() float64 {
	return t.Wait + t.Prefill + t.Transfer + t.Fixed + t.Others + t.Spread
}

// TTFT is the part that the request itself waits.
func (t *Terms) TTFT() float64 { return t.Wait + t.Prefill + t.Transfer + t.Fixed }

// View is what a policy sees. It is valid during Pick only and may not be kept.
type View struct {
	Now        time.Time
	Rand       *rand.Rand  // seeded from the request; the only source of chance
	Candidates []Candidate // never empty; in order of declaration

	Forced    Reason    // not empty where there is no choice: Candidates has one row, and no policy is asked
	Home      int       // index in Candidates of the conversation's endpoint, -1 when unknown or not a candidate
	Parent    int       // index of the endpoint of the conversation that started this one, -1 when unknown or not a candidate
	Repeats   bool      // the prompt is the conversation's latest, word for word: tried again, or one of many that begin alike
	FirstTurn bool      // the conversation is new to the router
	Leg       fleet.Leg // what is placed: a whole request, or one leg of it. Of a decode leg MsPerToken and FixedMs are those of the transfer
	NewID     bool      // the client names the conversation, by an id that has not been seen of late, see Decision.NewID

	Counted      bool    // ActiveTokens and AddsTokens of the candidates are known, see Counting
	Known        int     // tokens of the prompt that the candidate with most of it has cached
	Watched      float64 // share of the time over which TurnsPerMs is a mean in which there were turns to be seen; 0 before the first, or not told
	Missed       float64 // of the tokens that are pushed out of caches, the share that is asked for again, of late; 0 to 1
	PromptTokens int     // estimate for this request's whole prompt
	OutputTokens int     // answer tokens expected of it
	Hash         uint64  // what the request is placed by: its conversation, or a fresh number
}

// Choice is a policy's answer.
type Choice struct {
	Index  int // into View.Candidates
	Reason Reason
}

// Nobody is the index of no candidate.
const Nobody = -1

// Policy chooses one of the candidates. It always answers, does no I/O, and takes time and chance from the View. One
// value serves one pool and is called by one goroutine at a time. Its own state changes only inside Pick, and what Keeping tells.
type Policy interface {
	Pick(v *View, r *fleet.Request) Choice
}

// Keeping is a Policy with books of its own on the requests of its pool, beside those of the router: a weight in another measure,
// or what only counts once it was answered.
type Keeping interface {
	Policy
	// Reserved tells that a request of the pool went to a candidate, whoever chose it. View and Request are those of the decision
	// and may not be kept.
	Reserved(l fleet.Lease, c *Candidate, v *View, r *fleet.Request)
	// Released ends what Reserved began, once for each lease. answered means that the engine answered in full.
	Released(l fleet.Lease, answered bool)
}

// Stepping is a Policy with a counter that moves on with every decision of its pool, those included that leave it no choice.
type Stepping interface {
	Policy
	// StepsAlone reports whether it is to be asked where there is one candidate.
	StepsAlone() bool
}

// AskedAlone reports whether a policy is asked where there is one candidate: it notes what goes there, or its counter moves on.
func AskedAlone(p Policy) bool {
	if _, keeps := p.(Keeping); keeps {
		return true
	}
	s, steps := p.(Stepping)
	return steps && s.StepsAlone()
}

// Forgetting is a Policy that binds conversations to endpoints, and lets go of those of an endpoint that is not there any more.
type Forgetting interface {
	Policy
	// Forget tells that the endpoint with a Candidate.Key is no longer declared, or is another engine now.
	Forget(endpoint uint64)
}

// Counting is a Policy that may go by Candidate.ActiveTokens and AddsTokens. They are reckoned only when one asks, since that
// costs a look at every outstanding request.
type Counting interface {
	// CountsBlocks reports whether the policy wants them.
	CountsBlocks() bool
}

// Awaiting is a Policy that may go by Candidate.ReturnsPerMs. That is reckoned only when one asks.
type Awaiting interface {
	// AwaitsReturns reports whether the policy wants it.
	AwaitsReturns() bool
}

// Everywhere is how many tokens of the prompt all candidates have cached: what every conversation begins with.
func (v *View) Everywhere() int {
	tokens := v.PromptTokens
	for i := range v.Candidates {
		tokens = min(tokens, v.Candidates[i].CachedTokens)
	}
	return tokens
}

// Reason says in one word why an endpoint was chosen. The same word is the metric label, the log field and the
// column of golden traces. The set is small and closed.
type Reason string

// Reasons common to all policies; a policy's own reasons are declared beside it.
const (
	ReasonOnly    Reason = "only_candidate" // nothing to choose
	ReasonPinned  Reason = "pinned"         // the request named the endpoint
	ReasonHolder  Reason = "holds_response" // it holds the response the request refers to
	ReasonSession Reason = "session"        // the conversation's endpoint
	ReasonWeighed Reason = "weighed"        // where roles are free: it costs least, of all who could answer and all who could compute the prompt for them
)
