package enginetest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// connector is one engine's side of a hand-over protocol. Its steps are called in the order of the methods; what a request says of the
// hand-over is kept in ask.leg between them. An error is what the request is answered with, see errLoad.
type connector interface {
	// Read reads what a request says of a hand-over, before its rank is known; Placed when it is known.
	Read(r *http.Request, f *fields, a *ask) error
	Placed(r *http.Request, f *fields, a *ask) error
	// Find looks for the prompt's KV cache where the prompt itself depends on it.
	Find(r *http.Request, a *ask) error
	// Adjust changes the answer that was drawn, which has room for so many tokens.
	Adjust(ans *answer, seed uint64, room int)
	// Load fetches the KV cache of a decode leg into the engine's own.
	Load(r *http.Request, ans *answer, chain []uint64) error
	// Begin makes a prefill leg known to decoders, and Leave ends that.
	Begin(r *http.Request, a *ask) error
	Leave(a *ask)
	// Computed hands over what a whole answer has computed, Streamed what a stream has.
	Computed(r *http.Request, ans *answer) error
	Streamed(r *http.Request, ans *answer)

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
	Stats() KVStats
	// Lose makes the next hand-over fail as if the engine had been killed after its reply: the blocks are gone when they are fetched.
	Lose()
}

// handoverConfig is what a connector is configured with; see Options for the meaning of each.
type handoverConfig struct {
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

// handoverEngine is the engine that a connector belongs to.
type handoverEngine struct {
	BlockTokens, Ranks int
	Seed               uint64
	Speed              float64
	Address            func() string                           // host:port, "" before it listens
	Restarts           func() uint64                           // how often it was restarted
	Receive            func(rank int, chain []uint64)          // puts blocks into the cache of a rank
	AnswerTokens       func(a *ask, seed uint64, room int) int // how long the answer becomes
	Closing            <-chan struct{}
}

// newConnector makes the connector of a name; "" has none and takes no notice of what requests say.
func newConnector(c handoverConfig, e handoverEngine) (connector, error) {
	h := &host{config: c, engine: e}
	switch c.Connector {
	case "":
		return h, nil
	case "nixl":
		return &nixl{host: h}, nil
	case "lmcache":
		return &lmcache{host: h}, nil
	case "mooncake":
		return &mooncake{newMeeting(h)}, nil
	case "moriio", "moriio_read":
		return &moriio{meetingHost: newMeeting(h), reading: c.Connector == "moriio_read"}, nil
	case "sglang":
		return &sglangRooms{newMeeting(h)}, nil
	case "trtllm":
		return &trtllmLegs{host: h}, nil
	}
	return nil, fmt.Errorf("enginetest: no connector %q", c.Connector)
}
