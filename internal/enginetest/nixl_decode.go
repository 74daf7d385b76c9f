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

// errKVLoad is a transfer that failed by nobody's mistake, and kvFailure what vLLM says of it.
var errKVLoad = errors.New("the prefiller's blocks cannot be fetched")

const kvFailure = "Internal server error"

// fetchKV takes the blocks of a prompt from where they are, and waits as long as that takes.
func (s *Server) fetchKV(r *http.Request, a *ask, promptTokens int) error {
	var p kvParams
	if err := json.Unmarshal(a.kv.params, &p); err != nil {
		return s.refuse("%v", err)
	}
	port, err := strconv.Atoi(string(bytes.Trim(p.Port, `"`)))
	if err != nil {
		return s.refuse("remote_port is %s", p.Port)
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second) // vLLM's handshake gives up then
	defer cancel()
	address := net.JoinHostPort(*p.Host, strconv.Itoa(port))
	take := kvTake{Params: a.kv.params, Prompt: strconv.FormatUint(promptHash(a), 16)}
	if err := s.askPeer(ctx, "prefiller", "http://"+address+"/_sim/kv", take, nil); err != nil {
		return err
	}
	s.loaded(r.Context(), promptTokens)
	return nil
}

func (s *Server) countKV(counter *uint64) {
	s.kv.mu.Lock()
	*counter++
	s.kv.mu.Unlock()
}

// loadKV makes a decode leg ready to be submitted: its prompt's blocks are fetched into the cache of the rank it goes to. When that
// fails the answer is an error, in a stream after its first chunk, as vLLM has it.
func (s *Server) loadKV(w http.ResponseWriter, r *http.Request, ans *answer, sh shape, chain []uint64) bool {
	a, tokens := ans.ask, ans.promptTokens
	var err error
	switch {
	case a.meet != nil && !a.meet.prefill:
		if err = s.findEngine(r, a.meet); err == nil {
			err = s.attendMeeting(r, ans)
		}
	case a.kv != nil && a.kv.back != nil:
		tokens, err = s.fetchBack(r, a)
	case a.kv == nil || a.kv.params == nil:
		return true
	default:
		err = s.fetchKV(r, a, ans.promptTokens)
	}
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	switch {
	case errors.Is(err, errKVLoad) && s.opts.KVRecompute:
		a.kv.cached = 0
		return true
	case errors.Is(err, errKVLoad) && a.stream:
		w.Header().Set("Content-Type", sh.contentType())
		_, _ = w.Write(sh.failure(sh.open(nil, ans), http.StatusInternalServerError, kvFailure))
		return false
	case errors.Is(err, errKVLoad):
		s.fail(w, r, http.StatusInternalServerError, "InternalServerError", kvFailure)
		return false
	case err != nil:
		s.failWith(w, r, err)
		return false
	}
	if a.rank < 0 {
		a.rank = 0
	}
	s.pump.receive(a.rank, chain[:min(tokens/s.opts.Engine.BlockTokens, len(chain))])
	return true
}

// cachedTokens is what usage says was cached: of a decode leg, what the prefiller had, or all of the prompt where it does not say.
func (a *answer) cachedTokens() int {
	if t := a.ask.trt; t != nil && !t.context {
		return t.cached(a.promptTokens)
	}
	if kv := a.ask.kv; kv != nil && kv.params != nil {
		if kv.cached < 0 {
			return a.promptTokens
		}
		return kv.cached
	}
	return a.progress.cached
}
