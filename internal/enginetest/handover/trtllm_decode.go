package handover

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
	"github.com/warmpath/warmpath/sim/text"
)

// trtTake is a generation worker's request to a context worker.
type trtTake struct {
	ID    uint64 `json:"id"`
	State string `json:"state"`  // "" in generation-first
	Hash  string `json:"prompt"` // of the prompt's tokens, hexadecimal
}

// trtTaken is the answer.
type trtTaken struct {
	Length int `json:"length"` // bytes of the prompt
}

// trtSign is the signature over the cache's location (disagg_auth.py).
func trtSign(key string, p *trtParams) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	said := struct {
		At    *string `json:"ctx_info_endpoint"`
		State *string `json:"encoded_opaque_state"`
	}{}
	if p.At != "" {
		said.At = &p.At
	}
	if p.State != "" {
		said.State = &p.State
	}
	if err := e.Encode(said); err != nil {
		panic(err) // texts only
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(bytes.TrimSpace(b.Bytes()))
	return hex.EncodeToString(mac.Sum(nil))
}

// fetch takes the blocks of a generation leg's prompt from its context worker and waits for the duration of the
// transfer.
func (h *trtllm) fetch(r *http.Request, a *api.Ask, t *trtLeg, promptTokens int) error {
	address, ok := strings.CutPrefix(t.params.At, "tcp://")
	if !ok {
		return h.refuse("ctx_info_endpoint is %q", t.params.At)
	}
	var taken trtTaken
	take := trtTake{ID: *t.params.CtxID, State: t.params.State, Hash: strconv.FormatUint(idsHash(a, a.Prompt), 16)}
	if err := h.askPeer(r.Context(), "context worker", "http://"+address+"/_sim/trt", take, &taken); err != nil {
		return err
	}
	if taken.Length > promptTokens*text.TokenBytes {
		return fmt.Errorf("the context worker says a prompt of %d bytes", taken.Length)
	}
	if t.ids != nil || taken.Length < len(a.Prompt) {
		a.Prompt = a.Prompt[:min(taken.Length, len(a.Prompt))]
	}
	h.moved(r.Context(), promptTokens)
	return nil
}

// post hands the blocks of a lease to a generation worker, once. It waits until the prompt is computed.
func (h *trtllm) post(w http.ResponseWriter, r *http.Request) {
	var t trtTake
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&t); err != nil {
		api.WriteJSON(w, http.StatusBadRequest, api.ErrorObject(http.StatusBadRequest, "BadRequestError", err.Error()))
		return
	}
	key := trtKey(t.ID)
	var l *lease
	var why string
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		l, why = h.held[key], h.over[key]
		lost := h.lose && l != nil
		if lost {
			h.lose = false
		}
		h.mu.Unlock()
		if lost {
			h.end(key, "the lease is over", &h.stats.Expired)
			panic(http.ErrAbortHandler)
		}
		if l != nil || why != "" || t.State != "" || r.Context().Err() != nil || time.Now().After(until) {
			break
		}
	}
	changed := ""
	if l != nil && t.State != "" && t.State != string(l.params) {
		changed = "encoded_opaque_state was changed on the way"
	}
	switch {
	case l == nil && (why == "the lease is over" || why == "" && t.State == ""):
		gone(w, "no such request came, or its lease is over")
	case h.take(w, key, l, why, changed, t.Hash):
		api.WriteJSON(w, http.StatusOK, trtTaken{Length: l.length})
	}
}

// Find implements connector: it fetches the KV cache of a generation leg.
func (h *trtllm) Find(r *http.Request, a *api.Ask) error {
	t, _ := a.Leg.(*trtLeg)
	if t == nil || t.context {
		return nil
	}
	err := h.fetch(r, a, t, prompts.Tokens(len(a.Prompt)))
	left(r)
	if err == ErrLoad {
		return errors.New("KV cache transfer failed")
	}
	return err
}

// Adjust implements connector: a context leg gets one token.
func (h *trtllm) Adjust(ans *api.Answer, _ uint64, _ int) {
	if t, _ := ans.Ask.Leg.(*trtLeg); t != nil && t.context {
		ans.CutToOne()
	}
}

// Load implements connector: it puts the fetched blocks into the cache, and checks that the answer begins with the
// handed-over token.
func (h *trtllm) Load(_ *http.Request, ans *api.Answer, chain []uint64) error {
	t, _ := ans.Ask.Leg.(*trtLeg)
	if t == nil || t.context {
		return nil
	}
	if !t.first && !trtOwn(t.params.First, ans.Text) {
		return h.refuse("first_gen_tokens are %v, which this prompt is not answered with", t.params.First)
	}
	h.notePerf(t.id)
	cached := t.cached(ans.PromptTokens)
	ans.Told = &cached
	h.received(ans.Ask, ans.PromptTokens, chain)
	return nil
}

// Routes implements connector.
func (h *trtllm) Routes(m *http.ServeMux) {
	m.HandleFunc("POST /_sim/trt", h.post)
	m.HandleFunc("GET /perf_metrics", h.perfMetrics)
}

// Open implements connector.
func (h *trtllm) Open() int { return h.openLeases() }

// Forget implements connector.
func (h *trtllm) Forget() { h.dropLeases() }

// cached is the cached tokens in a generation leg's usage: those of the context worker, or the whole prompt if unknown.
func (t *trtLeg) cached(promptTokens int) int {
	switch u := t.params.Usage; {
	case u == nil:
		return promptTokens
	case u.Details == nil:
		return 0
	default:
		return u.Details.Cached
	}
}

const mostPerf = 1024

// notePerf records a computed leg for GET /perf_metrics.
func (h *trtllm) notePerf(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.perf) < mostPerf {
		h.perf = append(h.perf, map[string]any{
			"request_id": len(h.perf) + 1, "ctx_request_id": id,
			"perf_metrics": map[string]any{"first_iter": 1, "last_iter": 2, "timing_metrics": map[string]any{}},
		})
	}
}

// perfMetrics returns the legs computed since the last call.
func (h *trtllm) perfMetrics(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	out := h.perf
	h.perf = nil
	h.mu.Unlock()
	if out == nil {
		out = []any{}
	}
	api.WriteJSON(w, http.StatusOK, out)
}
