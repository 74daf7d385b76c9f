package handover

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

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// NIXL's bidirectional mode (kv_connector_extra_config.bidirectional_kv_xfer): a decoder's answer ends with the
// location of the conversation's blocks, held for decoder_kv_blocks_ttl; the prefiller of the next turn fetches them
// first and computes only what is new. A real prefiller trusts its parameters; the simulated one rejects blocks of
// another conversation, blocks fetched before, and expired blocks.

// backLease is the blocks that a decoder holds of one answered request.
type backLease struct {
	prompt  []byte // rendered; the next turn's prompt must continue it
	tokens  int
	request string
	expires *time.Timer
}

// backTake is a prefiller's request to a decoder.
type backTake struct {
	Params json.RawMessage `json:"params"`
	Prompt []byte          `json:"prompt"`
}

// holdBack opens a lease for an answered decode leg and returns the next prefiller's parameters; nil when the mode is
// off.
func (h *nixl) holdBack(a *api.Answer) json.RawMessage {
	leg, _ := a.Ask.Leg.(*nixlLeg)
	if h.config.Back == 0 || leg == nil || leg.params == nil {
		return nil
	}
	_, port := h.at()
	engine := h.engineID()
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := h.blocks(a.PromptTokens + a.Made)
	request := a.Ask.Id + fmt.Sprintf("-%08x", uint32(xxh3.HashString(a.Ask.Id)^uint64(h.next)))
	b := append([]byte(nil), `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":`...)
	b = prompts.AppendJSON(b, [][]int{ids})
	b = prompts.AppendString(append(b, `,"remote_engine_id":`...), engine)
	b = prompts.AppendString(append(b, `,"remote_request_id":`...), request)
	// the default of VLLM_NIXL_SIDE_CHANNEL_HOST: the router must replace it
	b = prompts.AppendString(append(b, `,"remote_host":`...), "localhost")
	b = append(b, `,"remote_port":`+strconv.Itoa(port)+`,"tp_size":1,"remote_num_tokens":`+
		strconv.Itoa(a.PromptTokens+a.Made)+`}`...)
	key := nixlKey(b)
	if h.back == nil {
		h.back, h.backOver = map[string]*backLease{}, map[string]string{}
	}
	if len(h.backOver) >= mostOver {
		clear(h.backOver)
	}
	l := &backLease{prompt: bytes.Clone(a.Ask.Prompt), tokens: a.PromptTokens, request: request}
	l.expires = time.AfterFunc(h.config.Back, func() { h.endBack(key, "its time is over", &h.stats.BackExpired) })
	h.back[key] = l
	h.stats.BackHeld++
	return b
}

// endBack closes a lease and counts it; it reports whether it was open.
func (h *nixl) endBack(key, why string, counter *uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, ok := h.back[key]
	if ok {
		l.expires.Stop()
		delete(h.back, key)
		h.backOver[key] = why
		*counter++
	}
	return ok
}

// readBack reads a prefill leg's parameters about a conversation's beginning at a decoder.
func (h *nixl) readBack(raw json.RawMessage, p *nixlParams, leg *nixlLeg) error {
	if p.Engine == nil && !prompts.Present(p.Blocks) {
		return nil
	}
	if h.config.Back == 0 {
		return h.refuse("bidirectional transfer is not configured")
	}
	for name, missing := range map[string]bool{
		"remote_block_ids": !prompts.Present(p.Blocks), "remote_engine_id": p.Engine == nil,
		"remote_request_id": p.Request == nil, "remote_host": p.Host == nil, "remote_port": !prompts.Present(p.Port),
	} {
		if missing {
			return h.refuse("kv_transfer_params of a prefill leg that fetches lack %s", name)
		}
	}
	if *p.Host == "localhost" {
		return h.refuse(
			"remote_host is localhost, which is the prefiller itself: the router must name the decoder's host")
	}
	leg.back = raw
	return nil
}

// fetchBack fetches the conversation's blocks from a decoder and returns how many tokens of the prompt they are.
func (h *nixl) fetchBack(r *http.Request, a *api.Ask, leg *nixlLeg) (tokens int, err error) {
	var p nixlParams
	if err := json.Unmarshal(leg.back, &p); err != nil {
		return 0, h.refuse("%v", err)
	}
	port := string(bytes.Trim(p.Port, `"`))
	take := backTake{Params: leg.back, Prompt: a.Prompt}
	if err := h.askPeer(r.Context(), "decoder", "http://"+net.JoinHostPort(*p.Host, port)+"/_sim/kv_back",
		take, &tokens); err != nil {
		return 0, err
	}
	h.count(&h.stats.BackLoaded)
	return tokens, nil
}

// postBack hands a conversation's blocks to a prefiller, once.
func (h *nixl) postBack(w http.ResponseWriter, r *http.Request) {
	var t backTake
	var p nixlParams
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<20)).Decode(&t)
	if err = errors.Join(err, json.Unmarshal(t.Params, &p)); err != nil {
		api.WriteJSON(w, http.StatusBadRequest, api.ErrorObject(http.StatusBadRequest, "BadRequestError", err.Error()))
		return
	}
	key := nixlKey(t.Params)
	lost := h.lost()
	h.mu.Lock()
	l, why := h.back[key], h.backOver[key]
	h.mu.Unlock()
	switch {
	case lost:
		panic(http.ErrAbortHandler)
	case p.Engine == nil || *p.Engine != h.engineID():
		gone(w, "this engine has another id: it was restarted")
	case l == nil && why != "":
		conflict(w, "the blocks cannot be fetched: "+why)
	case l == nil:
		conflict(w, "there are no such blocks")
	case p.Request == nil || *p.Request != l.request:
		conflict(w, "the blocks are another request's")
	case !bytes.HasPrefix(t.Prompt, l.prompt):
		conflict(w, "the prompt does not go on from that of the blocks: a real engine answers with a wrong text")
	case !h.endBack(key, "they were fetched before", &h.stats.BackTaken):
		conflict(w, "the blocks were fetched before")
	default:
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, strconv.Itoa(l.tokens))
	}
}
