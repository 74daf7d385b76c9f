package enginetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/zeebo/xxh3"
)

// NIXL's bidirectional mode (kv_connector_extra_config.bidirectional_kv_xfer): a decoder says at the end of its answer what it holds of the
// conversation, for decoder_kv_blocks_ttl, and the prefiller of the next turn fetches that first and computes only what is new. A real
// prefiller believes what it is told; the simulated one refuses blocks of another conversation, blocks that were fetched before,
// and blocks whose time is over.

// backLease is what a decoder holds of one answered request.
type backLease struct {
	prompt  []byte // rendered; that of the next turn must go on from it
	tokens  int
	request string
	expires *time.Timer
}

// backTake is what a prefiller asks a decoder.
type backTake struct {
	Params json.RawMessage `json:"params"`
	Prompt []byte          `json:"prompt"`
}

// holdKV opens a lease for an answered decode leg and returns what the next prefiller is to be told; nil when the mode is off.
func (s *Server) holdKV(a *answer) json.RawMessage {
	if s.opts.KVBack == 0 || a.ask.kv == nil || a.ask.kv.params == nil {
		return nil
	}
	_, port := s.kvAddr()
	s.kv.mu.Lock()
	defer s.kv.mu.Unlock()
	ids := make([]int, (a.promptTokens+a.made+s.opts.Engine.BlockTokens-1)/s.opts.Engine.BlockTokens)
	for i := range ids {
		ids[i] = s.kv.next % (1 << 20)
		s.kv.next++
	}
	request := a.ask.id + fmt.Sprintf("-%08x", uint32(xxh3.HashString(a.ask.id)^uint64(s.kv.next)))
	b := append([]byte(nil), `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":`...)
	b = appendJSON(b, [][]int{ids})
	b = appendString(append(b, `,"remote_engine_id":`...), s.kvEngine())
	b = appendString(append(b, `,"remote_request_id":`...), request)
	b = appendString(append(b, `,"remote_host":`...), "localhost") // as VLLM_NIXL_SIDE_CHANNEL_HOST is by default: the router must say where that is
	b = append(b, `,"remote_port":`+strconv.Itoa(port)+`,"tp_size":1,"remote_num_tokens":`+strconv.Itoa(a.promptTokens+a.made)+`}`...)
	key := kvKey(b)
	if s.kv.back == nil {
		s.kv.back, s.kv.backOver = map[string]*backLease{}, map[string]string{}
	}
	if len(s.kv.backOver) >= mostOver {
		clear(s.kv.backOver)
	}
	l := &backLease{prompt: bytes.Clone(a.ask.prompt), tokens: a.promptTokens, request: request}
	l.expires = time.AfterFunc(s.opts.KVBack, func() { s.endBack(key, "its time is over", &s.kv.stats.BackExpired) })
	s.kv.back[key] = l
	s.kv.stats.BackHeld++
	return b
}

// endBack closes a lease and counts it; it says whether it was open.
func (s *Server) endBack(key, why string, counter *uint64) bool {
	s.kv.mu.Lock()
	defer s.kv.mu.Unlock()
	l, ok := s.kv.back[key]
	if ok {
		l.expires.Stop()
		delete(s.kv.back, key)
		s.kv.backOver[key] = why
		*counter++
	}
	return ok
}

// readBack reads what a prefill leg says about a conversation's beginning that lies at a decoder.
func (s *Server) readBack(raw json.RawMessage, p *kvParams, a *ask) error {
	if p.Engine == nil && !present(p.Blocks) {
		return nil
	}
	if s.opts.KVBack == 0 {
		return s.refuse("bidirectional transfer is not configured")
	}
	for name, missing := range map[string]bool{
		"remote_block_ids": !present(p.Blocks), "remote_engine_id": p.Engine == nil, "remote_request_id": p.Request == nil,
		"remote_host": p.Host == nil, "remote_port": !present(p.Port),
	} {
		if missing {
			return s.refuse("kv_transfer_params of a prefill leg that fetches lack %s", name)
		}
	}
	if *p.Host == "localhost" {
		return s.refuse("remote_host is localhost, which is the prefiller itself: the router must name the decoder's host")
	}
	a.kv.back = raw
	return nil
}

// fetchBack takes what a decoder holds of the conversation and returns how many tokens of the prompt that is.
func (s *Server) fetchBack(r *http.Request, a *ask) (tokens int, err error) {
	var p kvParams
	if err := json.Unmarshal(a.kv.back, &p); err != nil {
		return 0, s.refuse("%v", err)
	}
	port := string(bytes.Trim(p.Port, `"`))
	take := backTake{Params: a.kv.back, Prompt: a.prompt}
	if err := s.askPeer(r.Context(), "decoder", "http://"+net.JoinHostPort(*p.Host, port)+"/_sim/kv_back", take, &tokens); err != nil {
		return 0, err
	}
	s.countKV(&s.kv.stats.BackLoaded)
	return tokens, nil
}

// postBack hands what is held of a conversation to a prefiller, once.
func (s *Server) postBack(w http.ResponseWriter, r *http.Request) {
	var t backTake
	var p kvParams
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<20)).Decode(&t)
	if err = errors.Join(err, json.Unmarshal(t.Params, &p)); err != nil {
		writeJSON(w, http.StatusBadRequest, errorObject(http.StatusBadRequest, "BadRequestError", err.Error()))
		return
	}
	key := kvKey(t.Params)
	s.kv.mu.Lock()
	l, why, lost := s.kv.back[key], s.kv.backOver[key], s.kv.lose
	s.kv.lose = false
	s.kv.mu.Unlock()
	wrong := func(msg string) {
		writeJSON(w, http.StatusConflict, errorObject(http.StatusConflict, "Conflict", msg))
	}
	switch {
	case lost:
		panic(http.ErrAbortHandler)
	case p.Engine == nil || *p.Engine != s.kvEngine():
		writeJSON(w, http.StatusGone, errorObject(http.StatusGone, "Gone", "this engine has another id: it was restarted"))
	case l == nil && why != "":
		wrong("the blocks cannot be fetched: " + why)
	case l == nil:
		wrong("there are no such blocks")
	case p.Request == nil || *p.Request != l.request:
		wrong("the blocks are another request's")
	case !bytes.HasPrefix(t.Prompt, l.prompt):
		wrong("the prompt does not go on from that of the blocks: a real engine answers with a wrong text")
	case !s.endBack(key, "they were fetched before", &s.kv.stats.BackTaken):
		wrong("the blocks were fetched before")
	default:
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, strconv.Itoa(l.tokens))
	}
}
