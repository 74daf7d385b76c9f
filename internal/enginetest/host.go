package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/zeebo/xxh3"
)

// errLoad is a transfer that failed by nobody's mistake: the answer is the engine's own error, in a stream after its first chunk.
var errLoad = errors.New("the prefiller's blocks cannot be fetched")

// KVStats count hand-overs.
type KVStats struct {
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

// host is what all connectors have in common: the engine, what was counted, and the fault of a lost hand-over. By itself it is the
// connector that does nothing.
type host struct {
	config handoverConfig
	engine handoverEngine

	mu    sync.Mutex // guards what follows, and the leases
	stats KVStats
	lose  bool // see Lose
	next  int  // of block ids
	leases
}

func (h *host) Read(*http.Request, *fields, *ask) error     { return nil }
func (h *host) Placed(*http.Request, *fields, *ask) error   { return nil }
func (h *host) Find(*http.Request, *ask) error              { return nil }
func (h *host) Adjust(*answer, uint64, int)                 {}
func (h *host) Load(*http.Request, *answer, []uint64) error { return nil }
func (h *host) Begin(*http.Request, *ask) error             { return nil }
func (h *host) Leave(*ask)                                  {}
func (h *host) Computed(*http.Request, *answer) error       { return nil }
func (h *host) Streamed(*http.Request, *answer)             {}
func (h *host) Routes(*http.ServeMux)                       {}
func (h *host) Listen(string) error                         { return nil }
func (h *host) Open() int                                   { return 0 }
func (h *host) Forget()                                     {}
func (h *host) Close()                                      {}

// Stats is a copy of the counters.
func (h *host) Stats() KVStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stats
}

// Lose makes the next hand-over fail as if the engine had been killed after its reply: the blocks are gone when they are fetched.
func (h *host) Lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lose = true
}

// lost takes the fault, once.
func (h *host) lost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	lost := h.lose
	h.lose = false
	return lost
}

// refuse counts a request against the protocol and answers it.
func (h *host) refuse(format string, args ...any) error {
	h.count(&h.stats.Refused)
	return &badRequest{status: http.StatusBadRequest, kind: "SimulatedProtocolError", msg: "simulated hand-over: " + fmt.Sprintf(format, args...)}
}

func (h *host) count(counter *uint64) {
	h.mu.Lock()
	*counter++
	h.mu.Unlock()
}

// blocks are ids of new blocks; mu is held.
func (h *host) blocks(tokens int) []int {
	ids := make([]int, (tokens+h.engine.BlockTokens-1)/h.engine.BlockTokens)
	for i := range ids {
		ids[i] = h.next % (1 << 20)
		h.next++
	}
	return ids
}

// engineID is the engine's id, new with each start.
func (h *host) engineID() string {
	n := xxh3.HashStringSeed(h.engine.Address(), h.engine.Seed+h.engine.Restarts())
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", n>>32, n>>16&0xffff, n&0xffff, n>>8&0xffff, n&0xffffffffffff)
}

// at is where decoders fetch blocks.
func (h *host) at() (name string, port int) {
	name, p, err := net.SplitHostPort(h.engine.Address())
	if err != nil {
		return "127.0.0.1", 0
	}
	port, _ = strconv.Atoi(p)
	return name, port
}

// received puts the blocks of so many tokens into the cache of the rank that the request goes to.
func (h *host) received(a *ask, tokens int, chain []uint64) {
	if a.rank < 0 {
		a.rank = 0
	}
	h.engine.Receive(a.rank, chain[:min(tokens/h.engine.BlockTokens, len(chain))])
}

// moveTime is how long the KV cache of so many tokens takes from one engine to the other.
func (h *host) moveTime(promptTokens int) time.Duration {
	wait := h.config.Latency + time.Duration(float64(promptTokens)/h.config.TokensPerSecond*float64(time.Second))
	return time.Duration(float64(wait) / h.engine.Speed)
}

// promptHash identifies what the KV cache of a prompt depends on.
func promptHash(a *ask) uint64 {
	return xxh3.HashSeed(a.prompt, xxh3.HashString(a.model+"\x00"+a.salt))
}

// idsHash identifies a prompt by its tokens.
func idsHash(a *ask, prompt []byte) uint64 {
	return xxh3.HashSeed(tokenBytes(tokenIDs(prompt)), xxh3.HashString(a.model+"\x00"+a.salt))
}

// onlyPrompt refuses a prefill leg that streams or makes more than one token.
func (h *host) onlyPrompt(f *fields, a *ask) error {
	switch {
	case a.stream || f.StreamOptions != nil:
		return h.refuse("a prefill leg must not stream")
	case a.maxTokens != 1 || a.minTokens > 1:
		return h.refuse("a prefill leg must make one token, this one makes %d", a.maxTokens)
	}
	return nil
}

// left ends the request of a client that has gone.
func left(r *http.Request) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

// askPeer asks the other engine of a hand-over, whose part in it is told by who. What it answers is written to answer, unless that is
// nil. The error is errLoad where it cannot be reached or does not have the blocks (any more), and a refusal where the question is
// against the protocol.
func (h *host) askPeer(ctx context.Context, who, url string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return h.refuse("the address of the %s: %v", who, err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		h.count(&h.stats.Failed)
		return errLoad
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusConflict, http.StatusBadRequest:
		return h.refuse("the %s says %s", who, said)
	default:
		h.count(&h.stats.Failed)
		return errLoad
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(said, answer)
}

// moved counts a transfer and waits as long as it takes, or until the client has left or the engine is closed.
func (h *host) moved(ctx context.Context, promptTokens int) {
	h.count(&h.stats.Loaded)
	timer := time.NewTimer(h.moveTime(promptTokens))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-h.engine.Closing:
	}
}
