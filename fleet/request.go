package fleet

import "github.com/warmpath/warmpath/session"

// Class is the kind of work that a request causes.
type Class uint8

// The request classes.
const (
	Turn      Class = iota // generates: a turn of a conversation
	Embed                  // computes a prompt and generates nothing
	Auxiliary              // costs the engine almost nothing (count_tokens, GET of a response, unknown paths)
)

// Request is what the frontend tells the router about one request. It contains no text.
type Request struct {
	ID    string // X-Request-Id
	Seed  uint64 // drawn by the caller; the only source of randomness in a decision
	Class Class

	Model string // name in the request; "" when the body has none
	Spelt bool   // Model counts as it is spelt, even where an engine knows other spellings of it
	Path  string // of the request, where endpoints are told apart by whether they have it; "" where not
	// the API is SGLang's, which reads no model name: without one it needs engines that all serve the same model
	Native bool
	Kinds  []Kind // kinds of engines that may take it; nil for any
	// all that its connection carries goes to one endpoint: it needs a model name where endpoints serve different ones
	Binds  bool
	Tenant string // "" for the default tenant
	// identifies the caller by tenant and key, for rate limits of engines, see route.Finished; 0 when unknown
	Caller uint64

	Session  string   // explicit conversation id; "" when the client sent none
	MintedID string   // new id for the conversation if Session is "" and it is not recognised in another way
	Follows  string   // id of an earlier response (previous_response_id, GET /v1/responses/{id}); "" for none
	Owned    []string // ids that must be known for Tenant: of what engines keep, where tenants are told apart
	User     string   // user id, which identifies a conversation poorly; "" for none
	Parent   string   // id of the conversation that started this one; "" for none
	HashKey  string   // key for hash policies when there is no session; "" means MintedID

	Content       *Content // hashes of the prompt; nil when unknown
	ShadowContent *Content // the same where shadow policies alone need it
	// what the content tells about the conversation, for requests without Session; nil for nothing
	Trail *session.Trail

	PromptBytes int // bytes of prompt text
	Characters  int // code points of the prompt without role names and tools, at least 1; 0 when not counted
	// token ids of the prompt if known before the decision, else nil; of several prompts see Listed
	Tokens       *Tokens
	PromptTokens int // exact number of tokens given as ids in the body; added to the estimate for PromptBytes
	MaxTokens    int // the client's limit on the answer; 0 for none
	// context in tokens that an engine which loads models on demand is to load the model with; 0 leaves it to it
	Window int
	// the engine computes the whole prompt, whatever of it is cached, and caches it
	ReadsNoCache bool
	Stream       bool // the answer is streamed: its first data comes when the prompt is computed

	// name of the endpoint that last served the conversation according to the client (the endpoint token); "" for
	// none
	Hint    string
	Pin     string   // name of the endpoint that must take the request; "" for none
	Exclude []string // names of endpoints that must not take it

	MayQueue   bool       // the caller can hold the request in the router's queue, see route.Decision
	MayHold    bool       // the caller can hold it before it is placed, see route.Plan
	QueueClass QueueClass // what its place in the queue depends on

	Splits bool // the caller can serve it in two legs, see route.Router

	Attempt // what earlier decisions on it add
}

// Attempt is what a decision on a request builds on that is not its first: a retry, a leg that is placed again, or a
// turn after a hold. The zero value is for the first decision.
type Attempt struct {
	Tried   []string // names of endpoints at which it already failed (retries)
	Refused []string // those of Tried and TriedPrefill whose engines asked for less traffic (Busy), and did not fail
	Lacking []string // those of Tried that do not have Path: only endpoints that may have it are left
	// a working engine may have computed part of it already: the retry counts against the budget and can fail with
	// ErrRetryBudget
	Again bool
	// reservation of the same request that this one replaces; 0 for none. It ends with its own Finished, later
	Instead Lease
	Hold    Lease // Plan.Hold of the same request, whose turn it is; 0 for none. Decide ends it

	// LegPrefill, LegDecode: place only that leg of a request that is already split; LegUnsplit leaves the choice to
	// the router
	Leg          Leg
	TriedPrefill []string // names of endpoints at which its prefill leg already failed
	Decoder      string   // with LegPrefill: the endpoint of the decode leg
	Prefiller    string   // with LegDecode: the endpoint that computed the prompt and needs no transfer from itself
	LegModel     string   // with either: the model of the other leg's Decision
	Fails        bool     // its prefill leg failed permanently: it must not be split
}

// Tokens are a prompt's token ids as the engine sees them, taken from the body. They are set only if the prompt's
// blocks depend on nothing else: no cache salt, no adapter, no image. They are read during Decide only.
type Tokens struct {
	IDs  []uint32
	More bool // more of the prompt follows these ids
}

// Lease identifies one reservation at an endpoint. Exactly one Finished event ends it.
type Lease uint64

// Outcome is how an attempt at an endpoint ended.
type Outcome uint8

// The outcomes of an attempt, and which side is to blame.
const (
	OK             Outcome = iota
	ClientGone             // the client left; no one is to blame
	ClientError            // a 4xx other than 429: the client is to blame, never the engine
	Busy                   // 429 or 503: overloaded, not broken
	EngineError            // 5xx, or an answer that broke off
	ConnectFailed          // the connection was refused or reset before anything was sent
	TimedOut               // no first byte, or silence within a stream, beyond the limit
	Abandoned              // given up by the router for another reason (shutdown, internal error); no one is to blame
	TransferFailed         // a decoder failed, perhaps for lack of its KV cache; blamed only when it happens again
)

var outcomeNames = [...]string{
	"ok",
	"client_gone",
	"client_error",
	"busy",
	"engine_error",
	"connect_failed",
	"timed_out",
	"abandoned",
	"transfer_failed",
}

// String is the metric label and log word of the outcome.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown"
}

// Usage is the cost of a request as its engine reported it.
type Usage struct {
	PromptTokens int // the whole prompt including its cached part; 0 when not reported
	CachedTokens int // the part of PromptTokens found in the cache
	OutputTokens int
	CachedKnown  bool // the engine reported cached tokens, perhaps 0
}
