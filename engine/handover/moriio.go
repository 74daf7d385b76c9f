package handover

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// MoRIIO is vLLM's MoRIIOConnector for AMD GPUs (vLLM 0.32.0, distributed/kv_transfer/kv_connector/v1/moriio). Each
// engine needs the other's address, HOST with a handshake and a notify port, which are not in its URL: they are
// declared with the endpoint (kv_address). Both go into the request id, as in vLLM's own router, and into the
// parameters, as in llm-d's.
//
// All engines of a fleet move blocks in one of two ways: the prefiller writes them to the decoder, and both are asked
// at once; or (read_mode) the decoder reads them, and is asked when the prefiller's reply has their location.
type MoRIIO struct {
	Read bool // the engines run with read_mode
}

// Name implements Connector.
func (m MoRIIO) Name() string {
	if m.Read {
		return "moriio_read"
	}
	return "moriio"
}

// Order implements Connector.
func (m MoRIIO) Order() Order {
	if m.Read {
		return PrefillFirst
	}
	return Together
}

// Fits implements Connector.
func (MoRIIO) Fits(x *Request) error { return Nixl{}.Fits(x) }

// pair is both engines' addresses.
func (MoRIIO) pair(x *Request) (p, d fleet.KVAddress, err error) {
	for _, e := range []*fleet.Endpoint{&x.Prefiller, &x.Decoder} {
		if e.KVAddress == "" {
			return p, d, fmt.Errorf("engine: %s has no kv_address, which the connector moriio needs of both endpoints",
				e.Name)
		}
	}
	if p, err = fleet.ParseKVAddress(x.Prefiller.KVAddress); err == nil {
		d, err = fleet.ParseKVAddress(x.Decoder.KVAddress)
	}
	return p, d, err
}

// ids are the request id, which contains both engines' addresses, and the transfer's id. Both are unique per prefill
// leg: an id is 32 hexadecimal digits (_DECODE_ZMQ_RE).
func (MoRIIO) ids(x *Request, p, d fleet.KVAddress) (request, transfer string) {
	var h uint64 = 14695981039346656037 // FNV-1a of the client's id, so that the two halves are independent
	for i := range len(x.ID) {
		h = (h ^ uint64(x.ID[i])) * 1099511628211
	}
	id := fmt.Sprintf("%016x%016x", h^uint64(x.Attempt), x.Random)
	return "___prefill_addr_" + p.String() + "___decode_addr_" + d.String() + "_" + id, "tx-" + id
}

// Prefill implements Connector.
func (m MoRIIO) Prefill(x *Request) (Message, error) {
	p, d, err := m.pair(x)
	if err != nil {
		return Message{}, err
	}
	request, transfer := m.ids(x, p, d)
	params := `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"transfer_id":` + jsonString(transfer) +
		peerParams(d, x.Decoder, x.DecoderPeer) + `}`
	return Message{
		Set: onlyPrompt(x, params), Header: []Header{{"X-Request-Id", request}},
	}, nil
}

// peerParams are the members with the other engine's address and size.
func peerParams(a fleet.KVAddress, e fleet.Endpoint, known fleet.Peer) string {
	s := `,"remote_host":` + jsonString(a.Host) + `,"remote_port":` + strconv.Itoa(a.Handshake) +
		`,"remote_handshake_port":` + strconv.Itoa(a.Handshake) + `,"remote_notify_port":` + strconv.Itoa(a.Notify) +
		`,"remote_dp_size":` + strconv.Itoa(max(known.Ranks, 1)) + `,"remote_tp_size":` + strconv.Itoa(max(e.TPSize, 1))
	if e.Part.Kind == fleet.Rank {
		s += `,"remote_dp_rank":` + strconv.Itoa(e.Part.Index) + `,"remote_dp_rank_override":true`
	}
	return s
}

// Reply implements Connector. In read mode the reply contains the blocks.
func (m MoRIIO) Reply(x *Request, body []byte) (Handed, error) {
	if !m.Read {
		return tokenReply(x, body)
	}
	h := Handed{}
	h.Usage, h.Known = answer.PromptUsage(x.API, body)
	params, ok := rawjson.Member(body, kvTransferParams)
	if err := checkParams(params, ok); err != nil {
		return h, err
	}
	for _, name := range []string{"remote_engine_id", "remote_block_ids", "transfer_id"} {
		if v, _ := rawjson.Member(params, name); rawjson.IsNull(v) {
			return h, fmt.Errorf("engine: the prefiller's kv_transfer_params lack %s", name)
		}
	}
	p, d, err := m.pair(x)
	if err != nil {
		return h, err
	}
	_, transfer := m.ids(x, p, d)
	if v, _ := rawjson.Member(params, "transfer_id"); string(v) != jsonString(transfer) {
		return h, fmt.Errorf("engine: the prefiller's reply is of the transfer %s, not %q", v, transfer)
	}
	h.Params = params
	return h, nil
}

// Decode implements Connector. In read mode the prefiller's parameters are passed on whole, plus its tensor parallelism
// under the name that decoders look for first. The client's limit on the answer is unchanged: the decoder generates the
// first token itself (MoRIIOConnectorScheduler.get_num_new_matched_tokens).
func (m MoRIIO) Decode(x *Request, h *Handed) (Message, error) {
	p, d, err := m.pair(x)
	if err != nil {
		return Message{}, err
	}
	request, transfer := m.ids(x, p, d)
	var params []byte
	switch {
	case !m.Read:
		params = []byte(`{"do_remote_prefill":true,"do_remote_decode":false,"transfer_id":` + jsonString(transfer) +
			peerParams(p, x.Prefiller, x.PrefillerPeer) + `}`)
	case h == nil || !bytes.HasPrefix(h.Params, []byte("{")):
		return Message{}, ErrNoParams
	default:
		params = h.Params
		if size, _ := rawjson.Member(params, "remote_tp_size"); rawjson.IsNull(size) {
			rest := bytes.TrimSpace(params[1:])
			params = append([]byte(`{"remote_tp_size":`+strconv.Itoa(max(x.Prefiller.TPSize, 1))+`,`), rest...)
		}
	}
	return Message{Set: []Member{{kvTransferParams, params}}, Header: []Header{{"X-Request-Id", request}}}, nil
}

// Keeps implements Connector: the prefiller was told the decoder.
func (MoRIIO) Keeps(bool) bool { return false }

var _ Connector = MoRIIO{}
