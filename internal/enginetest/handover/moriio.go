package handover

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// The protocol of vLLM's MoRIIOConnector (0.32.0), both sides and both modes (Options.Connector "moriio" and
// "moriio_read"). Engines find each other's address in the request id, or alternatively in the parameters; here both
// must be present and agree. The handshake and notify ports of a simulated engine are its own port.

// The patterns of moriio_common.py.
var (
	moriPrefill = regexp.MustCompile(`___prefill_addr_(.+?)___decode_addr_`)
	moriDecode  = regexp.MustCompile(`___decode_addr_(.+)_[0-9a-f]{32}(?:-.*)?$`)
)

// KVAddress is the address of the MoRI-IO connector, "" before Listen.
func (h *moriio) KVAddress() string {
	host, port := h.at()
	if port == 0 {
		return ""
	}
	return fleet.KVAddress{Host: host, Handshake: port, Notify: port}.String()
}

type moriio struct {
	*meetingHost
	reading bool // in read mode a decoder is given its prefiller's reply
}

// moriParams are the members used.
type moriParams struct {
	RemoteDecode  bool            `json:"do_remote_decode"`
	RemotePrefill bool            `json:"do_remote_prefill"`
	Transfer      string          `json:"transfer_id"`
	Engine        json.RawMessage `json:"remote_engine_id"`
	Blocks        json.RawMessage `json:"remote_block_ids"`
	Host          string          `json:"remote_host"`
	Handshake     int             `json:"remote_handshake_port"`
	Notify        int             `json:"remote_notify_port"`
	DPSize        *int            `json:"remote_dp_size"`
	TPSize        *int            `json:"remote_tp_size"`
	Rank          *int            `json:"remote_dp_rank"`
}

// Read implements connector: it reads kv_transfer_params of MoRI-IO.
func (h *moriio) Read(r *http.Request, f *api.Fields, a *api.Ask) error {
	if !prompts.Present(f.KVTransferParams) {
		return nil
	}
	var p moriParams
	if err := json.Unmarshal(f.KVTransferParams, &p); err != nil {
		return h.refuse("kv_transfer_params: %v", err)
	}
	if err := h.oneLeg(f, a, p.RemoteDecode, p.RemotePrefill, p.Transfer); err != nil {
		return err
	}
	id := r.Header.Get("X-Request-Id")
	from, to := moriPrefill.FindStringSubmatch(id), moriDecode.FindStringSubmatch(id)
	if from == nil || to == nil {
		return h.refuse("the request id %q names no two engines", id)
	}
	own, other := from[1], to[1]
	if p.RemotePrefill {
		own, other = other, own
	}
	peer, err := fleet.ParseKVAddress(other)
	switch {
	case err != nil:
		return h.refuse("%v", err)
	case own != h.KVAddress():
		return h.refuse("the request id names %s, this engine is %s", own, h.KVAddress())
	case p.Host != peer.Host || p.Handshake != peer.Handshake || p.Notify != peer.Notify:
		return h.refuse("the parameters name %s:%d:%d, the request id %s", p.Host, p.Handshake, p.Notify, other)
	case p.TPSize == nil || p.DPSize == nil:
		return h.refuse("remote_tp_size or remote_dp_size is missing")
	}
	k := &meetLeg{prefill: p.RemoteDecode, key: p.Transfer, rank: -1, decoder: to[1]}
	a.Leg = k
	if k.prefill {
		if h.reading {
			k.reply = func(ans *api.Answer) json.RawMessage { return h.reply(ans, p.Transfer) }
		}
		return nil
	}
	if p.Rank != nil {
		k.rank = *p.Rank
	}
	k.at = "http://" + peer.Host + ":" + strconv.Itoa(peer.Notify)
	if h.reading {
		if !prompts.Present(p.Blocks) || !prompts.Present(p.Engine) {
			return h.refuse("remote_block_ids or remote_engine_id is missing")
		}
		k.said = saidIn(f.KVTransferParams)
	}
	return nil
}

// reply is a prefiller's reply in read mode (request_finished).
func (h *moriio) reply(ans *api.Answer, transfer string) json.RawMessage {
	host, port := h.at()
	h.mu.Lock()
	ids := h.blocks(ans.PromptTokens)
	h.mu.Unlock()
	return prompts.AppendJSON(nil, map[string]any{
		"do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": [][]int{ids},
		"remote_engine_id": h.engineID(), "remote_host": host, "remote_handshake_port": port,
		"remote_notify_port": port, "remote_dp_rank": max(ans.Rank, 0), "remote_dp_rank_override": true,
		"remote_dp_size": h.engine.Ranks, "remote_dp_size_local": h.engine.Ranks, "tp_size": 1, "transfer_id": transfer,
	})
}
