package enginetest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/sim/text"
)

// trtTake is what a generation worker asks a context worker.
type trtTake struct {
	ID    uint64 `json:"id"`
	State string `json:"state"`  // "" in generation-first
	Hash  string `json:"prompt"` // of the prompt's tokens, hexadecimal
}

// trtTaken is the answer.
type trtTaken struct {
	Length int `json:"length"` // bytes of the prompt
}

// trtSign is the signature over where the cache is (disagg_auth.py).
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

// fetchDisagg takes the blocks of a generation leg's prompt from its context worker and waits as long as that takes.
func (s *Server) fetchDisagg(r *http.Request, a *ask, promptTokens int) error {
	t := a.trt
	address, ok := strings.CutPrefix(t.params.At, "tcp://")
	if !ok {
		return s.refuse("ctx_info_endpoint is %q", t.params.At)
	}
	var taken trtTaken
	take := trtTake{ID: *t.params.CtxID, State: t.params.State, Hash: strconv.FormatUint(idsHash(a), 16)}
	if err := s.askPeer(r.Context(), "context worker", "http://"+address+"/_sim/trt", take, &taken); err != nil {
		return err
	}
	if taken.Length > promptTokens*text.TokenBytes {
		return fmt.Errorf("the context worker says a prompt of %d bytes", taken.Length)
	}
	if t.ids != nil || taken.Length < len(a.prompt) {
		a.prompt = a.prompt[:min(taken.Length, len(a.prompt))]
	}
	s.loaded(r.Context(), promptTokens)
	return nil
}

// postDisagg hands the blocks of a lease to a generation worker, once. One that comes before the prompt is computed waits.
func (s *Server) postDisagg(w http.ResponseWriter, r *http.Request) {
	var t trtTake
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&t); err != nil {
		writeJSON(w, http.StatusBadRequest, errorObject(http.StatusBadRequest, "BadRequestError", err.Error()))
		return
	}
	key := trtKey(t.ID)
	var l *kvLease
	var why string
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		s.kv.mu.Lock()
		l, why = s.kv.open[key], s.kv.over[key]
		lost := s.kv.lose && l != nil
		if lost {
			s.kv.lose = false
		}
		s.kv.mu.Unlock()
		if lost {
			s.endKV(key, "the lease is over", &s.kv.stats.Expired)
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
		writeJSON(w, http.StatusGone, errorObject(http.StatusGone, "Gone", "no such request came, or its lease is over"))
	case s.takeKV(w, key, l, why, changed, t.Hash):
		writeJSON(w, http.StatusOK, trtTaken{Length: l.length})
	}
}

// loadDisagg fetches the KV cache of a generation leg. When that fails the answer is an error.
func (s *Server) loadDisagg(w http.ResponseWriter, r *http.Request, a *ask) bool {
	if a.trt == nil || a.trt.context {
		return true
	}
	err := s.fetchDisagg(r, a, tokens(len(a.prompt)))
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	switch {
	case err == errKVLoad:
		s.fail(w, r, http.StatusInternalServerError, "InternalServerError", "KV cache transfer failed")
		return false
	case err != nil:
		s.failWith(w, r, err)
		return false
	}
	return true
}

// disaggLoaded takes the blocks that were fetched into the cache, and checks that the answer begins with the token that was handed over.
func (s *Server) disaggLoaded(ans *answer, chain []uint64) error {
	a := ans.ask
	if a.trt == nil || a.trt.context {
		return nil
	}
	if !a.trt.first && !trtOwn(a.trt.params.First, ans.text) {
		return s.refuse("first_gen_tokens are %v, which this prompt is not answered with", a.trt.params.First)
	}
	s.notePerf(a.trt.id)
	a.rank = max(a.rank, 0)
	s.pump.receive(a.rank, chain[:min(ans.promptTokens/s.opts.Engine.BlockTokens, len(chain))])
	return nil
}

// cached is what a generation leg's usage says was cached: what the context worker had, or all of the prompt when it was not told.
func (t *trtAsk) cached(promptTokens int) int {
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

// notePerf keeps for GET /perf_metrics that a leg was computed.
func (s *Server) notePerf(id uint64) {
	s.kv.mu.Lock()
	defer s.kv.mu.Unlock()
	if len(s.kv.perf) < mostPerf {
		s.kv.perf = append(s.kv.perf, map[string]any{
			"request_id": len(s.kv.perf) + 1, "ctx_request_id": id,
			"perf_metrics": map[string]any{"first_iter": 1, "last_iter": 2, "timing_metrics": map[string]any{}},
		})
	}
}

// perfMetrics tells what was computed since it was asked last.
func (s *Server) perfMetrics(w http.ResponseWriter, _ *http.Request) {
	s.kv.mu.Lock()
	out := s.kv.perf
	s.kv.perf = nil
	s.kv.mu.Unlock()
	if out == nil {
		out = []any{}
	}
	writeJSON(w, http.StatusOK, out)
}
