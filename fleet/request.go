package fleet

import "github.com/warmpath/warmpath/session"

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
	Caller uint64 // tells apart whom engines may limit, by tenant and key: see Finished.Limited; 0 when nothing does

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
	Again   bool     // an engine that works may have computed some of it already: the retry budget is charged, and may refuse it with ErrRetryBudget
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
