package handover

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
)

// meetLeg is a request's part in a meeting.
type meetLeg struct {
	prefill bool
	key     string
	at      string // http://host:port of the prefiller, of a decode leg
	body    uint64 // hash of the request, if both legs must be equal
	said    string // the prefiller's reply, as given to the decoder
	decoder string // of a prefill leg: the decoder it was given; of a decode leg: this engine
	rank    int    // the rank given to the decoder; -1 for none
	first   bool   // the prompt is computed after the decoder has arrived (SGLang)
	reply   func(a *api.Answer) json.RawMessage
	m       *meeting
}

var errMeetTimeout = errors.New("the other engine did not come in time")

// Begin implements connector: it makes a prefill leg the host of its meeting, and waits for the decoder if the protocol
// demands it.
func (h *meetingHost) Begin(r *http.Request, a *api.Ask) error {
	k, _ := a.Leg.(*meetLeg)
	if k == nil || !k.prefill {
		return nil
	}
	h.meets.mu.Lock()
	if why := h.meets.over[k.key]; why != "" {
		h.meets.mu.Unlock()
		return h.refuse("the id was used before: %s", why)
	}
	m := h.meets.at(k.key)
	if m.prefiller {
		h.meets.mu.Unlock()
		return h.refuse("two requests at once have the same id")
	}
	k.m, m.prefiller = m, true
	m.prompt, m.body, m.decoder = promptHash(a), k.body, k.decoder
	h.meets.mu.Unlock()
	if !k.first {
		return nil
	}
	limit := time.NewTimer(h.config.Lease)
	defer limit.Stop()
	select {
	case <-m.came:
		return nil
	case <-r.Context().Done():
	case <-h.engine.Closing:
	case <-limit.C:
		h.leave(k)
		return errMeetTimeout
	}
	h.leave(k)
	panic(http.ErrAbortHandler)
}

// Leave implements connector: it ends a prefill leg that was not completed. A waiting decoder keeps waiting.
func (h *meetingHost) Leave(a *api.Ask) {
	k, _ := a.Leg.(*meetLeg)
	h.leave(k)
}

func (h *meetingHost) leave(k *meetLeg) {
	if k == nil || k.m == nil {
		return
	}
	h.meets.mu.Lock()
	defer h.meets.mu.Unlock()
	k.m.prefiller = false
	h.meets.idle(k.key)
}

// meet tells the decoder that the prompt is computed, or keeps it for the time of a lease. SGLang's prefill servers
// answer after it has been fetched.
func (h *meetingHost) meet(r *http.Request, ans *api.Answer) {
	k, _ := ans.Ask.Leg.(*meetLeg)
	if k == nil || k.m == nil {
		return
	}
	m := k.m
	if k.reply != nil {
		ans.Handed = k.reply(ans)
	}
	h.count(&h.stats.Handed)
	h.meets.mu.Lock()
	m.cached, m.rank, m.done = ans.Progress.Cached, max(ans.Rank, 0), true
	if k.reply != nil {
		m.said = saidIn(ans.Handed)
	}
	m.expires = time.AfterFunc(h.config.Lease, func() {
		h.meets.mu.Lock()
		defer h.meets.mu.Unlock()
		if h.meets.open[k.key] == m {
			h.meets.end(k.key, "the lease is over")
			h.count(&h.stats.Expired)
		}
	})
	close(m.computed)
	h.meets.mu.Unlock()
	if k.first {
		select {
		case <-m.taken:
		case <-r.Context().Done():
			h.meets.mu.Lock()
			h.meets.end(k.key, "the prefill leg was cancelled")
			h.meets.mu.Unlock()
		case <-h.engine.Closing:
		}
	}
}

// attend gets a decode leg's KV cache.
func (h *meetingHost) attend(r *http.Request, ans *api.Answer, k *meetLeg) error {
	a := ans.Ask
	var told meetAnswer
	call := meetCall{Key: k.key, Prompt: promptHash(a), Body: k.body, Said: k.said, Decoder: k.decoder, Rank: k.rank}
	if err := h.askPeer(r.Context(), "prefiller", k.at+"/_sim/meet", call, &told); err != nil {
		return err
	}
	ans.Told = &told.Cached
	if !k.first {
		ans.Told = &ans.PromptTokens // everything moved counts as cached
	}
	h.moved(r.Context(), ans.PromptTokens)
	return nil
}

// saidIn is the part of a prefiller's reply that a decoder must get unchanged.
func saidIn(params json.RawMessage) string {
	var p struct {
		Blocks   json.RawMessage `json:"remote_block_ids"`
		Engine   json.RawMessage `json:"remote_engine_id"`
		Transfer json.RawMessage `json:"transfer_id"`
	}
	if json.Unmarshal(params, &p) != nil {
		return ""
	}
	return string(p.Blocks) + " " + string(p.Engine) + " " + string(p.Transfer)
}

// fetch gets a decode leg's prompt from its prefiller, located by find if needed.
func (h *meetingHost) fetch(
	r *http.Request, ans *api.Answer, chain []uint64, find func(r *http.Request, k *meetLeg) error,
) error {
	k, _ := ans.Ask.Leg.(*meetLeg)
	if k == nil || k.prefill {
		return nil
	}
	err := find(r, k)
	if err == nil {
		err = h.attend(r, ans, k)
	}
	left(r)
	if err != nil {
		return err
	}
	h.received(ans.Ask, ans.PromptTokens, chain)
	return nil
}

// Load implements connector.
func (h *meetingHost) Load(r *http.Request, ans *api.Answer, chain []uint64) error {
	return h.fetch(r, ans, chain, func(*http.Request, *meetLeg) error { return nil })
}

// Computed implements connector.
func (h *meetingHost) Computed(r *http.Request, ans *api.Answer) error {
	h.meet(r, ans)
	return nil
}

// Streamed implements connector.
func (h *meetingHost) Streamed(r *http.Request, ans *api.Answer) { h.meet(r, ans) }

// Routes implements connector.
func (h *meetingHost) Routes(m *http.ServeMux) { m.HandleFunc("POST /_sim/meet", h.post) }

// Open implements connector.
func (h *meetingHost) Open() int { return h.meets.count() }

// Forget implements connector.
func (h *meetingHost) Forget() { h.meets.forget() }
