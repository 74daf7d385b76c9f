package route

import (
	"math/rand/v2"
	"time"
)

// Load is the router's own books for one endpoint: what it sent there and what is still to be done.
type Load struct {
	Requests      int   // outstanding requests
	PrefillTokens int64 // uncached prompt tokens of requests whose first byte has not come
	DecodeTokens  int64 // answer tokens expected of outstanding requests
	ContextTokens int64 // prompt and answer tokens resident for outstanding requests
	Waiting       int   // requests in the engine's own queue by its latest report, 0 when not reported
}

// Work is the tokens still to compute.
func (l Load) Work() int64 { return l.PrefillTokens + l.DecodeTokens }

// Candidate is one endpoint that may take the request.
type Candidate struct {
	Name   string
	Key    uint64  // hash of Name: what hash policies rank by
	Slot   int     // small stable number of the endpoint, for tables that policies keep
	Weight float64 // configured weight times Ramp; always above 0
	Load   Load
	Model  string // what the endpoint would be asked for

	CachedTokens int // of this request's prompt, predicted to be in its cache
}

// View is what a policy sees. It is valid during Pick only and may not be kept.
type View struct {
	Now        time.Time
	Rand       *rand.Rand  // seeded from the request; the only source of chance
	Candidates []Candidate // never empty; in order of declaration

	Home      int  // index in Candidates of the conversation's endpoint, -1 when unknown or not a candidate
	FirstTurn bool // the conversation is new to the router

	PromptTokens int    // estimate for this request's whole prompt
	OutputTokens int    // answer tokens expected of it
	Hash         uint64 // what the request is placed by: its conversation, or a fresh number
}

// Choice is a policy's answer.
type Choice struct {
	Index  int // into View.Candidates
	Reason Reason
}

// Policy chooses one of the candidates. It always answers, does no I/O, and takes time and chance from the View. One
// value serves one pool and is called by one goroutine at a time. Its own state changes only inside Pick.
type Policy interface {
	Pick(v *View, r *Request) Choice
}
