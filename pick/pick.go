// Package pick is what a policy sees and returns: the View of one decision, a table with one row per candidate
// endpoint, and the Choice.
//
// It owns these values and the interfaces of policies. Each room of package route fills in the part of a row that has
// its name (Endpoint, Cached, Pace, Wait, Demand, Link), once; all policies may read it and none changes it, but for
// Terms, which package cost reckons. Times are in ms, sizes in tokens or in the router's blocks of a prompt. The
// package keeps no state and implements no policy.
package pick

import (
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Candidate is one endpoint that may take the request: a row. Its parts are what one room each knows of it. A row is
// made as a whole, see Complete, and does not change afterwards, but for Terms.
type Candidate struct {
	Endpoint
	Cached
	Pace
	Wait
	DecodePace
	Demand
	Link  Link  // of a decode leg, else zero
	Terms Terms // filled in by policies that estimate time
}

// Complete makes the row of an endpoint, which is there already, and all other parts, in the memory of an older row.
func (c *Candidate) Complete(h *Cached, p *Pace, w *Wait, a *DecodePace, d *Demand, l *Link) {
	c.Cached = *h // one by one: together they would be copied twice
	c.Pace = *p
	c.Wait = *w
	c.DecodePace = *a
	c.Demand = *d
	c.Link = *l
	c.Terms = Terms{}
}

// Endpoints are those of rows that are still to be completed.
type Endpoints struct{ rows []Candidate }

// EndpointsOf are those of some rows.
func EndpointsOf(rows []Candidate) Endpoints { return Endpoints{rows} }

// Len is how many there are.
func (e Endpoints) Len() int { return len(e.rows) }

// At is one of them.
func (e Endpoints) At(i int) *Endpoint { return &e.rows[i].Endpoint }

// Endpoint is an endpoint that may take the request, what its engine reports, and the work that it has.
type Endpoint struct {
	Name   string
	Key    uint64  // hash of Name, for hash policies
	Slot   int     // small stable number of the endpoint, for tables kept by policies
	Weight float64 // configured weight times Ramp; above 0
	// share of its configured weight available while it ramps up after joining or recovering: above 0, normally 1
	Ramp    float64
	Load    fleet.Load
	Model   string     // name under which this endpoint serves the model
	Kind    fleet.Kind // declared or recognised
	Adapter bool       // the model is a LoRA adapter
	// version of its cache, above 0: changes when the cache is known to be lost. No two endpoints share one, not even
	// successors under one name
	Epoch uint32

	Context        int     // most tokens of a prompt and its answer; 0 unknown
	CacheTokens    int64   // reported capacity of its cache; 0 unknown
	Places         int     // requests it computes concurrently; 0 unknown
	EngineRequests int     // requests running or waiting in the engine by its latest report; -1 when not reported
	BlockTokens    int     // reported tokens per cache block; 0 unknown
	KVUsage        float64 // reported share of its cache held by running requests, 0 to 1; -1 when not reported
}

// Cached is what an endpoint's cache is believed to hold.
type Cached struct {
	CachedTokens int  // of this request's prompt, predicted to be cached here
	Blocks       int  // of the prompt's blocks, those estimated to be cached here by what was placed, also if Exact
	Present      int  // of Blocks, those not still to be transferred for a decode leg
	Counted      int  // of Blocks, those that CachedTokens counts, if not Exact
	Exact        bool // CachedTokens comes from KV events
	Far          int  // of CachedTokens, those believed to be in a second tier only, such as host memory
	Full         bool // its cache is believed to be full: adding evicts

	PresentTokens int // of CachedTokens, those not still to be transferred for a decode leg
	// expected over-prediction in tokens, of PresentTokens, or of CachedTokens in the view of a prefill leg
	ExpectedMiss float64
	// tokens of memory taken by outstanding requests: prompts and answers to come, shared prefixes counted once
	Resident int64

	ActiveTokens int64 // prompt tokens of outstanding requests, shared prefixes counted once; if View.Counted
	AddsTokens   int   // tokens of this prompt not among ActiveTokens; if View.Counted
}

// Arrived is what of it has arrived: what is still to be transferred for a decode leg does not count.
func (h Cached) Arrived() Cached {
	h.CachedTokens, h.Counted = h.PresentTokens, h.Present
	return h
}

// Pace is how fast an endpoint computes.
type Pace struct {
	MsPerToken  float64 // learnt time to compute one prompt token; above 0
	FixedMs     float64 // learnt time to first token when nothing has to be computed
	MsPerAnswer float64 // learnt time per answer token after the first; 0 unknown
	FarWork     float64 // prompt tokens that it computes while it fetches one of Far, learnt; 0 unknown
}

// Fetching is the work of fetching so many tokens of a second tier, in prompt tokens computed meanwhile.
func (p *Pace) Fetching(tokens int) float64 { return float64(float64(tokens) * p.FarWork) }

// Wait is how long the request waits at an endpoint, and how full that is.
type Wait struct {
	WaitMs    float64 // expected wait until the prompts in front are computed, and a place and memory are free
	Overtaken int     // requests queued at the router that this one would overtake
	Prompts   int     // streams in prefill or waiting for it
	Decoding  int     // requests being answered there, estimated
	// share of its places or of its KV memory, whichever is larger, taken by outstanding requests; 0 when neither is
	// known
	Occupancy   float64
	OfPlaces    bool    // it is the share of the places
	OccupancyMs float64 // the share one more request adds to Occupancy, times how long it stays
}

// DecodePace is how long answers take beside those of others, for role-less splitting only.
type DecodePace struct {
	AnswerMs   float64 // decode time per token with the requests being answered there
	PerOtherMs float64 // by how much each further decoding request increases AnswerMs
}

// Demand is who comes to an endpoint besides this request.
type Demand struct {
	TurnsPerMs float64 // recent rate of turns placed here, per ms
	// expected rate of follow-up turns here during this prompt's wait and prefill, per ms; see Needs.Returns
	ReturnsPerMs float64
	Utilisation  float64 // recent share of time spent on prefill, 0 to 1
}

// Link is how a prompt that is computed elsewhere comes to an endpoint.
type Link struct {
	MsPerToken float64 // learnt time to transfer one prompt token; above 0
	FixedMs    float64 // learnt time to first token when nothing has to be transferred
	WaitMs     float64 // of Wait.WaitMs, for transfers that share the link
	DelayMs    float64 // the delay of other requests that share the link
}

// FullWeight is the configured weight without the ramp.
func (c *Candidate) FullWeight() float64 {
	if c.Ramp <= 0 || c.Ramp == 1 {
		return c.Weight
	}
	return c.Weight / c.Ramp
}

// CacheGate says whether cached tokens counted in a decision: only if the best candidate holds more than a threshold
// share of the prompt (TensorRT-LLM PR 13198). The zero value means no gate.
type CacheGate struct {
	Asked     bool
	Open      bool    // cached tokens counted (cache_affinity_active)
	Match     int     // most tokens of the prompt held by an eligible candidate (max_match_for_req)
	Threshold float64 // share of the prompt that Match must exceed
}

// Terms are the expected costs of a placement, in ms. Cost is their sum.
type Terms struct {
	Wait        float64 // prompts in front, a free place or memory; of a decode leg also transfers beside its own
	Prefill     float64 // computing the uncached part of the prompt
	Transfer    float64 // of decode legs: moving the KV cache of what another endpoint computes
	Fixed       float64 // first token of an answer when nothing has to be computed
	Externality float64 // delay of later requests, and of those being answered there
	Spread      float64 // penalty for more new conversations than the endpoint's share
}

// Cost is the sum of the terms.
func (t *Terms) Cost() float64 {
	return t.Wait + t.Prefill + t.Transfer + t.Fixed + t.Externality + t.Spread
}

// TTFT is the expected time to first token of the request itself. Of a decode leg it counts from when its prompt is
// computed elsewhere, and Wait is what is left to wait for then.
func (t *Terms) TTFT() float64 { return t.Wait + t.Prefill + t.Transfer + t.Fixed }

// View is the input of a policy. It is valid during Pick and Placed only and must not be kept.
type View struct {
	Now  time.Time
	Rand *rand.Rand // seeded from the request; the only source of randomness
	// of Rand, so that Placed draws the same numbers as Pick; nil if no policy draws any in Placed
	Source     *rand.PCG
	Candidates []Candidate // never empty; in order of declaration

	Home int // index in Candidates of the conversation's home; -1 when unknown or not a candidate
	// index of the home of the conversation that started this one; -1 when unknown or not a candidate
	Parent    int
	Repeats   bool      // the prompt equals the conversation's latest: a retry, or one of many with the same beginning
	FirstTurn bool      // the conversation is new to the router
	Leg       fleet.Leg // what is placed: a whole request or one leg
	NewID     bool      // the client named the conversation by an id not seen recently, see route.Decision

	CacheGate CacheGate // filled in by policies with such a gate
	Splits    bool      // the request is split if that costs less
	// cost in ms per ms that this prompt delays a request being answered; 0 without splitting by time
	Interference   float64
	AnswerWaitCost float64 // cost in ms per ms that this answer will wait for prompts; 0 where splitting needs roles

	Counted    bool // the candidates' ActiveTokens and AddsTokens are known, see Needs.Active
	MostCached int  // most cached tokens of the prompt at any candidate
	// filled share of the window over which TurnsPerMs is measured; 0 before the first turn or when unknown
	Watched      float64
	LaterTurns   float64 // recent mean number of turns after a conversation's first
	TurnTokens   float64 // recent mean of uncached prompt tokens of a turn
	Missed       float64 // recent share of evicted tokens that were requested again, 0 to 1
	PromptTokens int     // estimate for the whole prompt
	OutputTokens int     // expected answer tokens
	// none unless this is a first turn too, and some endpoint has less of it cached and a shorter wait
	Sharers Sharers
	Hash    uint64 // hash key of the request: its conversation, or random
	Beyond  Beyond // endpoints that may take the request and have no row, see Needs.Shortlist
	Full    int    // endpoints that may take it and have no row, since their caches have no room for its session
}

// Sharers are the outstanding first turns whose prompts begin with all that any endpoint has cached of a view's prompt:
// a further copy of that would serve them.
type Sharers struct {
	Turns    float64 // how many they are
	OldestMs float64 // since the first of them was placed
}

// Seed begins the random numbers of a decision about a leg: those of Rand, whose source is given.
func Seed(source *rand.PCG, seed uint64, leg fleet.Leg) {
	source.Seed(seed, 0x9e3779b97f4a7c15+uint64(leg))
}

// Beyond is what is known of the endpoints without a row. The zero value means that all have one. Sums are in the units
// of the columns and as of each endpoint's latest row; requests are of now.
type Beyond struct {
	Count    int
	Requests int     // outstanding, without auxiliary ones
	Heaviest float64 // largest weight of any endpoint of the pool
	Able     float64 // sum of 1 / MsPerToken
	Ready    float64 // sum of Weight / MsPerToken
	Turns    float64 // sum of TurnsPerMs
	Utilised float64 // sum of Utilisation / MsPerToken
}

// PerToken is the ms for a token of the prompt that is not cached at a candidate: to compute it, or to transfer it for
// a decode leg.
func (v *View) PerToken(c *Candidate) float64 {
	if v.Leg == fleet.LegDecode {
		return c.Link.MsPerToken
	}
	return c.MsPerToken
}

// Fixed is the ms to the first token when all of the prompt is there.
func (v *View) Fixed(c *Candidate) float64 {
	if v.Leg == fleet.LegDecode {
		return c.Link.FixedMs
	}
	return c.FixedMs
}

// Eligible is how many endpoints may take the request.
func (v *View) Eligible() int { return len(v.Candidates) + v.Beyond.Count }

// Choice is the result of a policy.
type Choice struct {
	Index  int // into View.Candidates
	Reason Reason
}

// None is the index of no candidate.
const None = -1

// Policy chooses one of the candidates. It always answers, does no I/O, and takes time and randomness from the View.
// One value serves one pool and is not called concurrently.
//
// Pick reads: whether and how often it is called changes no later choice. A policy changes its state only when it is
// told what happened, by its Hooks.
//
// Needs and Hooks are asked once, when the policy is installed (Install). A policy with another inside begins with the
// other's and changes what it must, so that it loses none.
type Policy interface {
	Pick(v *View, r *fleet.Request) Choice
	Needs() Needs
	Hooks() Hooks
}

// Needs is what a policy wants of the router besides the columns that every view has.
type Needs struct {
	Name      string // as in the configuration
	Content   bool   // prompts are to be read: it uses them, or what endpoints have cached
	IDs       bool   // it gains little without clients' conversation ids
	Active    bool   // Candidate.ActiveTokens and AddsTokens: a pass over all outstanding requests
	Returns   bool   // Candidate.ReturnsPerMs
	Sharers   bool   // View.Sharers
	WhenOnly  bool   // Hooks.Placed is called for a single candidate too: a counter advances with every decision
	Shortlist bool   // large pools may be cut to the rows that can matter, see View.Beyond
	// it does what another router does, exactly: without the router's queue unless the operator sets that
	Exact bool
}

// And is what two need together of a view. The name is n's; a shortlist must suit both.
func (n Needs) And(o Needs) Needs {
	return Needs{
		Name: n.Name, Content: n.Content || o.Content, IDs: n.IDs || o.IDs, Active: n.Active || o.Active,
		Returns: n.Returns || o.Returns, Sharers: n.Sharers || o.Sharers,
		WhenOnly: n.WhenOnly || o.WhenOnly, Shortlist: n.Shortlist && o.Shortlist, Exact: n.Exact || o.Exact,
	}
}

// Hooks are what a policy wants to be told, nil for nothing. Arguments must not be kept.
type Hooks struct {
	// Placed reports that a request was placed as Pick chose. The view is as Pick left it, and draws the same random
	// numbers.
	Placed func(v *View, r *fleet.Request, c Choice)
	// Reserved reports that a request of the pool was placed at c, by any rule.
	Reserved func(l fleet.Lease, c *Candidate, v *View, r *fleet.Request)
	// Released ends what Reserved began, once per lease. answered means that the engine answered completely.
	Released func(l fleet.Lease, answered bool)
	// Forgotten reports that the endpoint with this Candidate.Key has left or is now another engine.
	Forgotten func(endpoint uint64)
	// PeerPlaced reports a turn placed by the same policy of another router.
	PeerPlaced func(t *PeerTurn)
}

// Plain is the needs of a policy, to be embedded: its Hooks are none, unless the policy has a method of its own.
type Plain Needs

// Needs implements Policy.
func (p Plain) Needs() Needs { return Needs(p) }

// Hooks implements Policy.
func (Plain) Hooks() Hooks { return Hooks{} }

// Installed is a policy at work, with its needs and hooks.
type Installed struct {
	Policy Policy
	Needs  Needs
	Hooks  Hooks
}

// Install asks a policy for its needs and hooks.
func Install(p Policy) *Installed { return &Installed{p, p.Needs(), p.Hooks()} }

// Tentative is a choice, and what its policy needs to learn from it.
type Tentative struct {
	Choice
	view   *View    // nil if the policy does not learn
	chance rand.PCG // state of the view's source before Pick
}

// Ask asks for a choice. Nothing has changed until the caller calls Placed.
func (p *Installed) Ask(v *View, r *fleet.Request) Tentative {
	a := p.learns(v)
	a.Choice = p.Policy.Pick(v, r)
	return a
}

// Only is the choice of the only candidate. The policy is not asked, and hears of it if it needs to.
func (p *Installed) Only(v *View, why Reason) (a Tentative) {
	if p.Needs.WhenOnly {
		a = p.learns(v)
	}
	a.Choice = Choice{Index: 0, Reason: why}
	return a
}

func (p *Installed) learns(v *View) (a Tentative) {
	if p.Hooks.Placed == nil {
		return a
	}
	if a.view = v; v.Source != nil {
		a.chance = *v.Source
	}
	return a
}

// Placed tells the policy, if it learns, that the request was placed as it chose.
func (p *Installed) Placed(a *Tentative, r *fleet.Request) {
	if a.view == nil {
		return
	}
	if a.view.Source != nil {
		*a.view.Source = a.chance
	}
	p.Hooks.Placed(a.view, r, a.Choice)
}

// Forgotten tells the policy that an endpoint has left.
func (p *Installed) Forgotten(endpoint uint64) {
	if p.Hooks.Forgotten != nil {
		p.Hooks.Forgotten(endpoint)
	}
}

// PeerTurn is a turn placed by another router.
type PeerTurn struct {
	Slot      int    // of the endpoint
	Key       uint64 // of the endpoint, see Candidate.Key
	FirstTurn bool   // its conversation is new
}

// Shared is how many tokens of the prompt a candidate holds for all conversations: those cached at all candidates. A
// new conversation shares all that it finds cached.
func (v *View) Shared(c *Candidate) int {
	if v.FirstTurn {
		return c.CachedTokens
	}
	tokens := v.PromptTokens
	for i := range v.Candidates {
		tokens = min(tokens, v.Candidates[i].CachedTokens)
	}
	return tokens
}

// Reason is the word that says why an endpoint was chosen, used as metric label, in logs and in golden traces. A
// policy has few, and declares its own.
type Reason string

// Reasons common to all policies; each policy declares its own beside it.
const (
	ReasonOnly    Reason = "only_candidate" // nothing to choose
	ReasonPinned  Reason = "pinned"         // the request named the endpoint
	ReasonHolder  Reason = "holds_response" // it holds the response the request refers to
	ReasonSession Reason = "session"        // the conversation's endpoint
	// role-less splitting: it has the least cost of all endpoints that could answer, whichever computes the prompt
	ReasonWeighed Reason = "weighed"
)
