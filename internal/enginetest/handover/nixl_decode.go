package handover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
)

// Load implements connector: it fetches a decode leg's blocks into the cache of its rank.
func (h *nixl) Load(r *http.Request, ans *api.Answer, chain []uint64) error {
	a := ans.Ask
	leg, _ := a.Leg.(*nixlLeg)
	tokens := ans.PromptTokens
	var err error
	switch {
	case leg != nil && leg.back != nil:
		tokens, err = h.fetchBack(r, a, leg)
	case leg == nil || leg.params == nil:
		return nil
	default:
		err = h.fetch(r, a, leg, ans.PromptTokens)
	}
	left(r)
	if leg.params != nil {
		ans.Told = &leg.cached
		if leg.cached < 0 {
			ans.Told = &ans.PromptTokens
		}
	}
	switch {
	case errors.Is(err, ErrLoad) && h.config.Recompute:
		if leg.params != nil {
			ans.Told = new(int)
		}
		return nil
	case err != nil:
		return err
	}
	h.received(a, tokens, chain)
	return nil
}

// fetch takes a prompt's blocks from their engine and waits for the duration of the transfer.
func (h *nixl) fetch(r *http.Request, a *api.Ask, leg *nixlLeg, promptTokens int) error {
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
func (h *nixl) Computed(_ *http.Request, ans *api.Answer) error {
	if leg, _ := ans.Ask.Leg.(*nixlLeg); leg != nil && leg.prefill {
		ans.Handed = h.hand(ans.Ask, ans.PromptTokens, ans.Progress.Cached)
	} else {
		ans.Handed = h.holdBack(ans)
	}
	return nil
}

// Streamed implements connector.
func (h *nixl) Streamed(_ *http.Request, ans *api.Answer) { ans.Handed = h.holdBack(ans) }

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
