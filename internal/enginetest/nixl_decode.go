package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Load implements connector: a decode leg's blocks are fetched into the cache of the rank it goes to.
func (h *nixl) Load(r *http.Request, ans *answer, chain []uint64) error {
	a := ans.ask
	leg, _ := a.leg.(*nixlLeg)
	tokens := ans.promptTokens
	var err error
	switch {
	case leg != nil && leg.back != nil:
		tokens, err = h.fetchBack(r, a, leg)
	case leg == nil || leg.params == nil:
		return nil
	default:
		err = h.fetch(r, a, leg, ans.promptTokens)
	}
	left(r)
	if leg.params != nil {
		ans.told = &leg.cached
		if leg.cached < 0 {
			ans.told = &ans.promptTokens
		}
	}
	switch {
	case errors.Is(err, errLoad) && h.config.Recompute:
		if leg.params != nil {
			ans.told = new(int)
		}
		return nil
	case err != nil:
		return err
	}
	h.received(a, tokens, chain)
	return nil
}

// fetch takes the blocks of a prompt from where they are, and waits as long as that takes.
func (h *nixl) fetch(r *http.Request, a *ask, leg *nixlLeg, promptTokens int) error {
	var p nixlParams
	if err := json.Unmarshal(leg.params, &p); err != nil {
		return h.refuse("%v", err)
	}
	port, err := strconv.Atoi(string(bytes.Trim(p.Port, `"`)))
	if err != nil {
		return h.refuse("remote_port is %s", p.Port)
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second) // vLLM's handshake gives up then
	defer cancel()
	address := net.JoinHostPort(*p.Host, strconv.Itoa(port))
	take := nixlTake{Params: leg.params, Prompt: strconv.FormatUint(promptHash(a), 16)}
	if err := h.askPeer(ctx, "prefiller", "http://"+address+"/_sim/kv", take, nil); err != nil {
		return err
	}
	h.moved(r.Context(), promptTokens)
	return nil
}

// Computed implements connector.
func (h *nixl) Computed(_ *http.Request, ans *answer) error {
	if leg, _ := ans.ask.leg.(*nixlLeg); leg != nil && leg.prefill {
		ans.handed = h.hand(ans.ask, ans.promptTokens, ans.progress.cached)
	} else {
		ans.handed = h.holdBack(ans)
	}
	return nil
}

// Streamed implements connector.
func (h *nixl) Streamed(_ *http.Request, ans *answer) { ans.handed = h.holdBack(ans) }

// Routes implements connector.
func (h *nixl) Routes(m *http.ServeMux) {
	m.HandleFunc("POST /_sim/kv", h.post)
	m.HandleFunc("POST /_sim/kv_back", h.postBack)
}

// Open implements connector.
func (h *nixl) Open() int { return h.openLeases() }

// Forget implements connector.
func (h *nixl) Forget() {
	h.dropLeases()
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, l := range h.back {
		l.expires.Stop()
		delete(h.back, key)
	}
}
