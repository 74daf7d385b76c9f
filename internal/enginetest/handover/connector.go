// Package handover is the simulated engines' side of disaggregated serving: the connectors that move a prompt's KV
// cache to the engine that answers. It owns leases, meetings, ports and counters; requests at which a real engine would
// hang, die or answer wrongly are rejected and counted. It computes no prompt and decides no placement.
//
// To add one, write a type that embeds host, and its row in connectors.go.
package handover

import (
	"net/http"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/api"
)

// Connector is one engine's side of a transfer protocol. Its methods are called in order; a request's parameters are
// kept in Ask.Leg between them. An error is the answer to the request, see ErrLoad.
type Connector interface {
	// Read reads a request's parameters before its rank is known, Placed afterwards.
	Read(r *http.Request, f *api.Fields, a *api.Ask) error
	Placed(r *http.Request, f *api.Fields, a *api.Ask) error
	// Find looks for the prompt's KV cache if the prompt itself depends on it.
	Find(r *http.Request, a *api.Ask) error
	// Adjust changes the drawn answer, which has room for this many tokens.
	Adjust(ans *api.Answer, seed uint64, room int)
	// Load fetches a decode leg's KV cache into the engine's own.
	Load(r *http.Request, ans *api.Answer, chain []uint64) error
	// Begin announces a prefill leg to decoders; Leave ends that.
	Begin(r *http.Request, a *api.Ask) error
	Leave(a *api.Ask)
	// Computed hands over the result of a whole answer, Streamed that of a stream.
	Computed(r *http.Request, ans *api.Answer) error
	Streamed(r *http.Request, ans *api.Answer)

	// Routes adds the paths for other engines.
	Routes(m *http.ServeMux)
	// Listen opens the ports beside the engine's own.
	Listen(host string) error
	// Open is the number of open transfers.
	Open() int
	// Forget drops all of them, for a restart of the engine.
	Forget()
	// Close ends the connector's servers.
	Close()
	// Stats are the counters, without open transfers.
	Stats() Stats
	// Lose makes the next transfer fail as if the engine had been killed after its reply: the blocks are gone when they
	// are fetched.
	Lose()
}

// Config configures a connector; see Options for the fields.
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

// Engine is a connector's engine.
type Engine struct {
	BlockTokens, Ranks int
	Seed               uint64
	Speed              float64
	Address            func() string                               // host:port, "" before it listens
	Restarts           func() uint64                               // number of restarts
	Receive            func(rank int, chain []uint64)              // puts blocks into a rank's cache
	AnswerTokens       func(a *api.Ask, seed uint64, room int) int // length of the answer
	Closing            <-chan struct{}
}

// Stats are counters of transfers.
type Stats struct {
	Handed  uint64 `json:"handed"`  // prompts computed for a decoder
	Taken   uint64 `json:"taken"`   // of these, fetched by one
	Expired uint64 `json:"expired"` // of these, expired with their lease
	Open    int    `json:"open"`    // leases that are neither
	Loaded  uint64 `json:"loaded"`  // prompts fetched from a prefiller
	Failed  uint64 `json:"failed"`  // prompts that could not be fetched
	Refused uint64 `json:"refused"` // requests that violate the protocol

	BackHeld    uint64 `json:"back_held,omitempty"`    // answers whose blocks a decoder holds for the next turn
	BackTaken   uint64 `json:"back_taken,omitempty"`   // of these, fetched by a prefiller
	BackExpired uint64 `json:"back_expired,omitempty"` // of these, expired
	BackLoaded  uint64 `json:"back_loaded,omitempty"`  // prompts whose beginning was fetched from a decoder
}
