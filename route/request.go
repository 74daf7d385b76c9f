package route

import (
	"time"

	"github.com/warmpath/warmpath/session"
)

// Class says what kind of work a request is.
type Class uint8

// The classes of request.
const (
	Turn  Class = iota // generates: a turn of a conversation
	Embed              // computes a prompt and generates nothing
	Aside              // costs the engine nothing worth counting (count_tokens, GET of a response, unknown paths)
)

// Request is what a door tells the router about one request. It holds no text.
type Request struct {
	ID    string // X-Request-Id
	Seed  uint64 // drawn by the driver; all chance in a decision comes from it
	Class Class

	Model  string // as the client named it; "" when the body names none
	Kinds  []Kind // kinds of engine that speak the request's API, preferred to others; nil when all do
	Native bool   // the API belongs to one kind of engine and may leave the model out
	Tenant string // "" for the one tenant there is by default

	Session  string // explicit conversation id; "" when the client sent none
	MintedID string // a fresh id to give the conversation when Session is "" and nothing else identifies it
	Follows  string // id of an earlier response (previous_response_id, GET /v1/responses/{id}); "" when none
	User     string // id of the user, which says little about the conversation; "" when there is none
	Parent   string // id of the conversation that started this one; "" when there is none
	HashKey  string // what hash policies place by when there is no session; "" means MintedID

	Content   *Content       // what the prompt consists of; nil when it is not known
	Overheard *Content       // the same where only shadows go by it, see Sighting
	Trail     *session.Trail // what the content says about the conversation, for requests without Session; nil for nothing

	PromptBytes  int  // bytes of prompt text
	PromptTokens int  // tokens known exactly (token ids in the body); added to the estimate for PromptBytes
	MaxTokens    int  // the client's bound on the answer, 0 when not stated
	Stream       bool // the answer is wanted as it is made: its first data comes when the prompt is computed

	Hint    string   // endpoint name that the client says served the conversation last, see the door's endpoint token; "" for none
	Pin     string   // endpoint name this request must go to; "" for none
	Exclude []string // endpoint names this request must not go to
	Tried   []string // endpoint names that already failed this request (retries)
	Instead Lease    // reservation of the same request that this one takes the place of; 0 for none. It ends by its own Finished, later

	Waits bool // the door can keep it until its turn comes, see Decision.Waits

	Splits       bool     // the door can serve it in two legs, see Router.Decide
	Leg          Leg      // LegPrefill, LegDecode: only that leg is wanted, of a request that is split already; LegWhole leaves it open
	TriedPrefill []string // endpoint names that already failed its prefill leg
	Decoder      string   // with LegPrefill: the endpoint of the decode leg
	Prefiller    string   // with LegDecode: the endpoint that computed the prompt, which does not fetch it from itself
	Fails        bool     // its prefill leg failed for good: it is not to be split
}

// Lease names one reservation on an endpoint's books. It is released by exactly one Finished event.
type Lease uint64

// Decision is where a request goes and why.
type Decision struct {
	Lease    Lease
	Endpoint Endpoint
	Kind     Kind   // of the endpoint, stated or recognised
	Model    string // what to ask the endpoint for: the client's name, or what an alias resolved to
	Pool     string // the model name (or alias) the pool is known by; "" for requests without a model
	Policy   string // name of the policy that decided

	Session    string // conversation id to echo: the client's own, or the minted one
	FirstTurn  bool   // the router did not know the conversation before
	NewID      bool   // is_first_turn of TensorRT-LLM PR 14744: the client named the conversation by an id that is not among the last 100,000; false without an id
	Reason     Reason
	Candidates int // how many endpoints were eligible

	PromptTokens int     // estimate for the whole prompt
	CachedTokens int     // predicted to be in the endpoint's cache
	TTFTMs       float64 // predicted time to first token (Terms.TTFT), of a decode leg with its prefill; 0 when there is nothing to go by

	Waits bool // it stands in line: it may be sent when its lease is in an Entry.Called

	Leg     Leg
	Why     SplitWhy // why the request was split or not; "" where nothing is disaggregated
	Weighed Weighed

	Peer     Peer   // what is known of the endpoint, beyond what is declared, for handing KV cache over
	Handover string // of a prefill leg: see Report.Handover
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

// Outcome says how an attempt at an endpoint ended.
type Outcome uint8

// The outcomes of an attempt, and who is to blame.
const (
	OK             Outcome = iota
	ClientGone             // the client left; nobody's fault
	ClientError            // a 4xx other than 429: the client's fault, never the engine's
	Busy                   // 429 or 503: back-pressure, not death
	EngineError            // 5xx, a broken or wrongly ended answer
	ConnectFailed          // the connection was refused or reset before anything was sent
	TimedOut               // no first byte, or silence within a stream, beyond the limit
	Abandoned              // given up by the router for another reason (shutdown, internal error); nobody's fault
	TransferFailed         // a decoder failed that may not have got its KV cache; nobody's fault until it happens again
)

var outcomeNames = [...]string{"ok", "client_gone", "client_error", "busy", "engine_error", "connect_failed", "timed_out", "abandoned", "transfer_failed"}

// String is the metric label and log word of the outcome.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown"
}

// Usage is what an engine said a request cost.
type Usage struct {
	PromptTokens int // the whole prompt, cached part included; 0 when not reported
	CachedTokens int // of these, found in the cache
	OutputTokens int
	CachedKnown  bool // the engine reported cached tokens (0 counts as reported)
}

// Event is something the router is told. The set is closed.
type Event interface{ event() }

// Declared replaces the endpoints of one discovery source by a full snapshot. Names are unique over all sources: a
// name that another source declared first is refused and reported by Router.Refused.
type Declared struct {
	Source    string // "static", "file", "dns", "admin", ...
	Endpoints []Endpoint
}

// Probed reports on one endpoint.
type Probed struct {
	Endpoint string
	Report   Report
}

// Drain stops (or, with Off, resumes) new traffic to an endpoint; what runs there ends in its own time.
type Drain struct {
	Endpoint string
	Off      bool
}

// FirstByte says that the answer's first data arrived: the prefill of this lease is done.
type FirstByte struct{ Lease Lease }

// Holding says under which id an endpoint holds a response that it is still making: a client that has read so much of it may ask for it, or cancel it.
type Holding struct {
	Lease    Lease
	Response string
}

// Transferring says that the prompt of a decode leg has been computed and its KV cache is on its way: the decoder has been asked.
type Transferring struct{ Lease Lease }

// Signs are the endpoints' signs of life that no other event tells: when data of a stream under way last came. It is also the occasion on
// which endpoints are looked for that give none, so it is to be told every second or so while there are requests.
type Signs struct{ At map[string]time.Time } // by name

// Finished ends a lease. Each lease is finished exactly once; a second Finished is counted and ignored.
type Finished struct {
	Lease      Lease
	Outcome    Outcome
	RetryAfter time.Duration // with Busy: how long the engine asked for, 0 when it did not say
	Usage      Usage
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
