package handover

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

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
	"github.com/warmpath/warmpath/internal/httpclient"
)

// ErrLoad is a failed transfer that violates nothing: the answer is the engine's own error, in a stream after its first
// chunk.
var ErrLoad = errors.New("the prefiller's blocks cannot be fetched")

// host is the common part of all connectors: the engine, the counters, and the fault of a lost transfer. By itself it
// is the connector that does nothing.
type host struct {
	config Config
	engine Engine

	mu    sync.Mutex // guards the following fields, and the leases
	stats Stats
	lose  bool // see Lose
	next  int  // of block ids
	leases
}

func (h *host) Read(*http.Request, *api.Fields, *api.Ask) error   { return nil }
func (h *host) Placed(*http.Request, *api.Fields, *api.Ask) error { return nil }
func (h *host) Find(*http.Request, *api.Ask) error                { return nil }
func (h *host) Adjust(*api.Answer, uint64, int)                   {}
func (h *host) Load(*http.Request, *api.Answer, []uint64) error   { return nil }
func (h *host) Begin(*http.Request, *api.Ask) error               { return nil }
func (h *host) Leave(*api.Ask)                                    {}
func (h *host) Computed(*http.Request, *api.Answer) error         { return nil }
func (h *host) Streamed(*http.Request, *api.Answer)               {}
func (h *host) Routes(*http.ServeMux)                             {}
func (h *host) Listen(string) error                               { return nil }
func (h *host) Open() int                                         { return 0 }
func (h *host) Forget()                                           {}
func (h *host) Close()                                            {}

// Stats returns the counters.
func (h *host) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stats
}

// Lose makes the next transfer fail as if the engine had been killed after its reply: the blocks are gone when they are
// fetched.
func (h *host) Lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lose = true
}

// lost consumes the fault.
func (h *host) lost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	lost := h.lose
	h.lose = false
	return lost
}

// refuse counts and answers a request that violates the protocol.
func (h *host) refuse(format string, args ...any) error {
	h.count(&h.stats.Refused)
	return &api.Error{
		Status: http.StatusBadRequest, Kind: "SimulatedProtocolError",
		Msg: "simulated hand-over: " + fmt.Sprintf(format, args...),
	}
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

// engineID is the engine's id, new after each start.
func (h *host) engineID() string {
	n := xxh3.HashStringSeed(h.engine.Address(), h.engine.Seed+h.engine.Restarts())
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", n>>32, n>>16&0xffff, n&0xffff, n>>8&0xffff, n&0xffffffffffff)
}

// at is the address from which decoders fetch blocks.
func (h *host) at() (name string, port int) {
	name, p, err := net.SplitHostPort(h.engine.Address())
	if err != nil {
		return "127.0.0.1", 0
	}
	port, _ = strconv.Atoi(p)
	return name, port
}

// received puts the blocks of this many tokens into the cache of the request's rank.
func (h *host) received(a *api.Ask, tokens int, chain []uint64) {
	if a.Rank < 0 {
		a.Rank = 0
	}
	h.engine.Receive(a.Rank, chain[:min(tokens/h.engine.BlockTokens, len(chain))])
}

// moveTime is the duration of a transfer.
func (h *host) moveTime(promptTokens int) time.Duration {
	wait := h.config.Latency + time.Duration(float64(promptTokens)/h.config.TokensPerSecond*float64(time.Second))
	return time.Duration(float64(wait) / h.engine.Speed)
}

// promptHash is the hash of what a prompt's KV cache depends on.
func promptHash(a *api.Ask) uint64 {
	return xxh3.HashSeed(a.Prompt, xxh3.HashString(a.Model+"\x00"+a.Salt))
}

// idsHash is the hash of a prompt's tokens.
func idsHash(a *api.Ask, prompt []byte) uint64 {
	return xxh3.HashSeed(prompts.TokenBytes(prompts.TokenIDs(prompt)), xxh3.HashString(a.Model+"\x00"+a.Salt))
}

// onlyPrompt rejects a prefill leg that streams or generates more than one token.
func (h *host) onlyPrompt(f *api.Fields, a *api.Ask) error {
	switch {
	case a.Stream || f.StreamOptions != nil:
		return h.refuse("a prefill leg must not stream")
	case a.MaxTokens != 1 || a.MinTokens > 1:
		return h.refuse("a prefill leg must make one token, this one makes %d", a.MaxTokens)
	}
	return nil
}

// left ends the request of a client that has left.
func left(r *http.Request) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

// askPeer asks the other engine of a transfer; who is its role. Its answer is decoded into answer, unless that is nil.
// The error is ErrLoad if it cannot be reached or no longer has the blocks, and a refusal if the question violates the
// protocol.
func (h *host) askPeer(ctx context.Context, who, url string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return h.refuse("the address of the %s: %v", who, err)
	}
	res, err := httpclient.New(nil).Do(req)
	if err != nil {
		h.count(&h.stats.Failed)
		return ErrLoad
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusConflict, http.StatusBadRequest:
		return h.refuse("the %s says %s", who, said)
	default:
		h.count(&h.stats.Failed)
		return ErrLoad
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(said, answer)
}

// moved counts a transfer and waits for its duration, or until the client has left or the engine is closed.
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
