// Package handover is the simulated engines' side of disaggregated serving: the connectors by which the KV cache of a prompt gets from the
// engine that computes it to the one that answers. It owns the leases, meetings and ports, and what is counted of them; what a real engine
// would hang, die or answer wrongly at is refused and counted. It never computes a prompt and never decides where a request goes.
//
// To add one, write a type that embeds host, and its row in connectors.go.
package handover

import (
	"net/http"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/api"
)

// Connector is one engine's side of a hand-over protocol. Its steps are called in the order of the methods; what a request says of the
// hand-over is kept in ask.leg between them. An error is what the request is answered with, see errLoad.
type Connector interface {
	// Read reads what a request says of a hand-over, before its rank is known; Placed when it is known.
	Read(r *http.Request, f *api.Fields, a *api.Ask) error
	Placed(r *http.Request, f *api.Fields, a *api.Ask) error
	// Find looks for the prompt's KV cache where the prompt itself depends on it.
	Find(r *http.Request, a *api.Ask) error
	// Adjust changes the answer that was drawn, which has room for so many tokens.
	Adjust(ans *api.Answer, seed uint64, room int)
	// Load fetches the KV cache of a decode leg into the engine's own.
	Load(r *http.Request, ans *api.Answer, chain []uint64) error
	// Begin makes a prefill leg known to decoders, and Leave ends that.
	Begin(r *http.Request, a *api.Ask) error
	Leave(a *api.Ask)
	// Computed hands over what a whole answer has computed, Streamed what a stream has.
	Computed(r *http.Request, ans *api.Answer) error
	Streamed(r *http.Request, ans *api.Answer)

	// Routes adds the paths at which other engines ask.
	Routes(m *http.ServeMux)
	// Listen opens the ports beside the engine's own.
	Listen(host string) error
	// Open is how many hand-overs are under way.
	Open() int
	// Forget drops all of them: the engine restarts.
	Forget()
	// Close ends what the connector runs.
	Close()
	// Stats are the counters, without those under way.
	Stats() Stats
	// Lose makes the next hand-over fail as if the engine had been killed after its reply: the blocks are gone when they are fetched.
	Lose()
}

// Config is what a connector is configured with; see Options for the meaning of each.
type Config struct {
	Connector       string
	Lease           time.Duration
	Latency         time.Duration
	TokensPerSecond float64
	Back            time.Duration
	Recompute       bool
	Old             bool
	TP              int
	Port            int
	Notify          string
	Role            fleet.Role
	BootstrapPort   int
	Key             string
}

// Engine is the engine that a connector belongs to.
type Engine struct {
	BlockTokens, Ranks int
	Seed               uint64
	Speed              float64
	Address            func() string                               // host:port, "" before it listens
	Restarts           func() uint64                               // how often it was restarted
	Receive            func(rank int, chain []uint64)              // puts blocks into the cache of a rank
	AnswerTokens       func(a *api.Ask, seed uint64, room int) int // how long the answer becomes
	Closing            <-chan struct{}
}

// Stats count hand-overs.
type Stats struct {
	Handed  uint64 `json:"handed"`  // prompts computed for a decoder
	Taken   uint64 `json:"taken"`   // of these, fetched by one
	Expired uint64 `json:"expired"` // of these, given up when the lease was over
	Open    int    `json:"open"`    // leases that are neither
	Loaded  uint64 `json:"loaded"`  // prompts fetched from a prefiller
	Failed  uint64 `json:"failed"`  // prompts that could not be fetched
	Refused uint64 `json:"refused"` // requests against the protocol

	BackHeld    uint64 `json:"back_held,omitempty"`    // answers of which a decoder holds the blocks for the next turn
	BackTaken   uint64 `json:"back_taken,omitempty"`   // of these, fetched by a prefiller
	BackExpired uint64 `json:"back_expired,omitempty"` // of these, given up when their time was over
	BackLoaded  uint64 `json:"back_loaded,omitempty"`  // prompts whose beginning was fetched from a decoder
}
