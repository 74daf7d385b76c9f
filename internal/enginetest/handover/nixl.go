package handover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// The protocol of vLLM's NixlConnector (0.32.0), both sides. Parameters with which a real engine would answer from
// another prompt, hang or die are rejected with a 400 of the type "SimulatedProtocolError" and counted in
// Stats.KV.Refused, so that tests show every wrong message of a router. Failures that violate nothing (the prefiller is
// gone, the lease has expired) are a 500, as with kv_load_failure_policy "fail".
//
// The real side channel is ZMQ and RDMA; here a decoder fetches the blocks over HTTP, at POST /_sim/kv.
type nixl struct {
	*host
	back     map[string]*backLease // see holdBack; the host's mu guards it
	backOver map[string]string
}

// nixlLeg is a request's part in a transfer.
type nixlLeg struct {
	prefill bool   // to be handed to a decoder
	params  []byte // to be fetched from a prefiller; nil when not
	cached  int    // prompt tokens cached at the prefiller; -1 when unknown
	back    []byte // of a prefill leg: location of the conversation's beginning; nil for none
}

// nixlParams are the members used by a decoder.
type nixlParams struct {
	RemoteDecode  bool            `json:"do_remote_decode"`
	RemotePrefill bool            `json:"do_remote_prefill"`
	Blocks        json.RawMessage `json:"remote_block_ids"`
	Engine        *string         `json:"remote_engine_id"`
	Request       *string         `json:"remote_request_id"`
	Host          *string         `json:"remote_host"`
	Port          json.RawMessage `json:"remote_port"`
	Cached        *int            `json:"remote_prefill_cached_tokens"`
}

// Read implements connector: it reads kv_transfer_params.
func (h *nixl) Read(_ *http.Request, f *api.Fields, a *api.Ask) error {
	if !prompts.Present(f.KVTransferParams) {
		return nil
	}
	var p nixlParams
	if err := json.Unmarshal(f.KVTransferParams, &p); err != nil {
		return h.refuse("kv_transfer_params: %v", err)
	}
	switch {
	case p.RemotePrefill && p.RemoteDecode:
		return h.refuse("a request cannot be both legs")
	case p.RemoteDecode:
		if err := h.onlyPrompt(f, a); err != nil {
			return err
		}
		leg := &nixlLeg{prefill: true}
		a.Leg = leg
		return h.readBack(f.KVTransferParams, &p, leg)
	case p.RemotePrefill:
		for name, missing := range map[string]bool{
			"remote_block_ids": !prompts.Present(p.Blocks), "remote_engine_id": p.Engine == nil,
			"remote_request_id": p.Request == nil && !h.config.Old, "remote_host": p.Host == nil,
			"remote_port": !prompts.Present(p.Port),
		} {
			if missing {
				return h.refuse("kv_transfer_params lack %s: a real engine does not survive that", name)
			}
		}
		leg := &nixlLeg{params: f.KVTransferParams, cached: -1}
		if p.Cached != nil {
			leg.cached = *p.Cached
		}
		a.Leg = leg
	}
	return nil
}

// hand opens a lease for a computed prompt and returns the decoder's parameters.
func (h *nixl) hand(a *api.Ask, promptTokens, cached int) json.RawMessage {
	host, port := h.at()
	engine := h.engineID()
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := h.blocks(promptTokens)
	id := a.Id + fmt.Sprintf("-%08x", uint32(xxh3.HashString(a.Id)+uint64(h.next)))
	var b []byte
	b = append(b, `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":`...)
	if h.config.Old {
		b = prompts.AppendJSON(b, ids)
	} else {
		b = prompts.AppendJSON(b, [][]int{ids})
	}
	b = append(b, `,"remote_engine_id":`...)
	b = prompts.AppendString(b, engine)
	if !h.config.Old {
		b = append(b, `,"remote_request_id":`...)
		b = prompts.AppendString(b, id)
	}
	b = append(b, `,"remote_host":`...)
	b = prompts.AppendString(b, host)
	b = append(b, `,"remote_port":`+strconv.Itoa(port)...)
	b = append(b, `,"tp_size":1`...)
	if !h.config.Old {
		b = append(b, `,"dcp_size":1,"pp_size":1,"remote_num_tokens":`+strconv.Itoa(promptTokens)+
			`,"remote_blocks_expiry_time":null,"transfer_mode":"pull","remote_prefill_cached_tokens":`+
			strconv.Itoa(cached)...)
	}
	b = append(b, '}')
	key := nixlKey(b)
	h.hold(key, &lease{params: b, prompt: promptHash(a)})
	return b
}

// nixlKey is the key of a lease: its blocks, which no two open leases share.
func nixlKey(params []byte) string {
	var p nixlParams
	if json.Unmarshal(params, &p) != nil {
		return ""
	}
	return string(p.Blocks)
}

// nixlTake is a decoder's request to a prefiller.
type nixlTake struct {
	Params json.RawMessage `json:"params"`
	Prompt string          `json:"prompt"` // hash, hexadecimal
}

// post hands the blocks of a lease to a decoder, once.
func (h *nixl) post(w http.ResponseWriter, r *http.Request) {
	var t nixlTake
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<20)).Decode(&t); err != nil {
		api.WriteJSON(w, http.StatusBadRequest, api.ErrorObject(http.StatusBadRequest, "BadRequestError", err.Error()))
		return
	}
	var p nixlParams
	_ = json.Unmarshal(t.Params, &p)
	key := nixlKey(t.Params)
	lost := h.lost()
	h.mu.Lock()
	l, why := h.held[key], h.over[key]
	h.mu.Unlock()
	if lost {
		h.end(key, "the lease is over", &h.stats.Expired)
		panic(http.ErrAbortHandler)
	}
	changed := ""
	if l != nil && !bytes.Equal(t.Params, l.params) {
		changed = "kv_transfer_params were changed on the way: " + string(t.Params) + " was " + string(l.params)
	}
	switch {
	case p.Engine == nil || *p.Engine != h.engineID():
		gone(w, "this engine has another id: it was restarted")
	case l == nil && why == "the lease is over":
		gone(w, why)
	case h.take(w, key, l, why, changed, t.Prompt):
		w.WriteHeader(http.StatusOK)
	}
}
