package enginetest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"

	"github.com/warmpath/warmpath/fleet"
)

// The hand-over of vLLM's MoRIIOConnector (0.32.0), both sides and both modes (Options.Connector "moriio" and "moriio_read"). Engines
// find each other's address in the request id, and as a second way in the parameters; here both must be there and say the same. The
// handshake and notify ports of a simulated engine are its own port.

// The patterns of moriio_common.py.
var (
	moriPrefill = regexp.MustCompile(`___prefill_addr_(.+?)___decode_addr_`)
	moriDecode  = regexp.MustCompile(`___decode_addr_(.+)_[0-9a-f]{32}(?:-.*)?$`)
)

// KVAddress is the address of the MoRI-IO connector, "" before Listen.
func (s *Server) KVAddress() string {
	host, port := s.kvAddr()
	if port == 0 {
		return ""
	}
	return fleet.KVAddress{Host: host, Handshake: port, Notify: port}.String()
}

// moriParams are the members that are looked at.
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

// readMori reads kv_transfer_params of MoRI-IO.
func (s *Server) readMori(r *http.Request, f *fields, a *ask) error {
	read := s.opts.Connector == "moriio_read"
	if s.opts.Connector != "moriio" && !read || !present(f.KVTransferParams) {
		return nil
	}
	var p moriParams
	if err := json.Unmarshal(f.KVTransferParams, &p); err != nil {
		return s.refuse("kv_transfer_params: %v", err)
	}
	if err := s.oneLeg(f, a, p.RemoteDecode, p.RemotePrefill, p.Transfer); err != nil {
		return err
	}
	id := r.Header.Get("X-Request-Id")
	from, to := moriPrefill.FindStringSubmatch(id), moriDecode.FindStringSubmatch(id)
	if from == nil || to == nil {
		return s.refuse("the request id %q names no two engines", id)
	}
	own, other := from[1], to[1]
	if p.RemotePrefill {
		own, other = other, own
	}
	peer, err := fleet.ParseKVAddress(other)
	switch {
	case err != nil:
		return s.refuse("%v", err)
	case own != s.KVAddress():
		return s.refuse("the request id names %s, this engine is %s", own, s.KVAddress())
	case p.Host != peer.Host || p.Handshake != peer.Handshake || p.Notify != peer.Notify:
		return s.refuse("the parameters name %s:%d:%d, the request id %s", p.Host, p.Handshake, p.Notify, other)
	case p.TPSize == nil || p.DPSize == nil:
		return s.refuse("remote_tp_size or remote_dp_size is missing")
	}
	k := &meetAsk{prefill: p.RemoteDecode, key: p.Transfer, rank: -1, decoder: to[1]}
	a.meet = k
	if k.prefill {
		if read {
			k.reply = func(ans *answer) json.RawMessage { return s.moriReply(ans, p.Transfer) }
		}
		return nil
	}
	if p.Rank != nil {
		k.rank = *p.Rank
	}
	k.at = "http://" + peer.Host + ":" + strconv.Itoa(peer.Notify)
	if read {
		if !present(p.Blocks) || !present(p.Engine) {
			return s.refuse("remote_block_ids or remote_engine_id is missing")
		}
		k.said = saidIn(f.KVTransferParams)
	}
	return nil
}

// moriReply is what a prefiller says in read mode (request_finished).
func (s *Server) moriReply(ans *answer, transfer string) json.RawMessage {
	host, port := s.kvAddr()
	ids := make([]int, (ans.promptTokens+s.opts.Engine.BlockTokens-1)/s.opts.Engine.BlockTokens)
	s.kv.mu.Lock()
	for i := range ids {
		ids[i] = s.kv.next % (1 << 20)
		s.kv.next++
	}
	s.kv.mu.Unlock()
	return appendJSON(nil, map[string]any{
		"do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": [][]int{ids}, "remote_engine_id": s.kvEngine(),
		"remote_host": host, "remote_handshake_port": port, "remote_notify_port": port,
		"remote_dp_rank": max(ans.rank, 0), "remote_dp_rank_override": true, "remote_dp_size": s.opts.Ranks, "remote_dp_size_local": s.opts.Ranks,
		"tp_size": 1, "transfer_id": transfer,
	})
}
