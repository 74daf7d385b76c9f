package handover

import (
	"bytes"
	"fmt"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/rawjson"
)

// Nixl is vLLM's NixlConnector (vLLM 0.32.0, distributed/kv_transfer/kv_connector/v1/nixl; the same exchange is in the
// repository's toy_proxy_server and in llm-d's sidecar as nixlv2). The prefiller computes the prompt and one token,
// holds the blocks for a lease of 30 s, and gives their location in its reply. The decoder gets that and fetches them.
//
// An engine trusts its parameters: those of another prompt, those used again after the blocks were reused, or a prefill
// of more than one token give a wrong text without an error, and incomplete parameters end the process (all observed
// with vLLM 0.32.0). So the object is copied whole or not at all; the prompt has equal bytes on both legs; and a
// client's own parameters reach no engine.
type Nixl struct{}

// nixlAsk is the prefiller's parameters. Older versions require all keys.
const nixlAsk = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`

// Name implements Connector.
func (Nixl) Name() string { return "nixl" }

// Order implements Connector: the decoder needs the prefiller's reply.
func (Nixl) Order() Order { return PrefillFirst }

// Fits implements Connector. Parameters belong to one prompt and one answer: with a list of prompts the second would
// get the first one's cache, and a second answer's blocks would stay until the lease ends. Requests for data about the
// prompt's tokens need prefill where the answer is made.
func (Nixl) Fits(x *Request) error {
	switch x.API {
	case answer.APIChat, answer.APICompletions, answer.APIResponses, answer.APIMessages:
	default:
		return fmt.Errorf("the connector nixl knows no API %q", x.API)
	}
	return fitsOnce(x)
}

// Prefill implements Connector: one token, not streamed. A limit that overrides max_tokens must be one too, and a
// minimum above the limit is rejected. Members cannot be removed, so they are set to values equivalent to absence.
func (n Nixl) Prefill(x *Request) (Message, error) {
	if x.Before == nil {
		return Message{Set: onlyPrompt(x, nixlAsk)}, nil
	}
	return Message{Set: onlyPrompt(x, nixlBack(x.Before))}, nil
}

// nixlBack is the parameters of a prefiller that first fetches a conversation's beginning from its decoder: the
// decoder's own with the direction reversed and its address (bidirectional mode,
// kv_connector_extra_config.bidirectional_kv_xfer, and vLLM's multi-turn proxy).
func nixlBack(b *Before) string {
	out := []byte(`{"do_remote_decode":true,"do_remote_prefill":false,"remote_host":` + jsonString(b.Host))
	return string(rawjson.AppendOthers(out, b.Params, "do_remote_decode", "do_remote_prefill", "remote_host")) + "}"
}

// Returned implements Returner: the member kv_transfer_params of a plain answer, or of the last chunk of a stream. Its
// name in unescaped quotes cannot occur inside a string, so text about it is not mistaken for it.
func (Nixl) Returned(end []byte) []byte {
	const name = `"` + kvTransferParams + `"`
	for {
		i := bytes.LastIndex(end, []byte(name))
		if i < 0 {
			return nil
		}
		c := rawjson.Cursor{Data: end, Pos: i + len(name)}
		if (i == 0 || end[i-1] != '\\') && c.Take(':') {
			c.Space()
			start := c.Pos
			if !c.Skip() || rawjson.IsNull(end[start:c.Pos]) || end[start] != '{' {
				return nil
			}
			params := end[start:c.Pos]
			said, _ := rawjson.Members(params, "remote_engine_id", "remote_block_ids",
				"remote_request_id", "remote_port")
			for _, v := range said {
				if rawjson.IsNull(v) {
					return nil
				}
			}
			return params
		}
		end = end[:i]
	}
}

// Reply implements Connector: the object kv_transfer_params at the top of the reply, passed on unread. remote_block_ids
// is a list in older versions and a list per cache group in newer ones.
func (Nixl) Reply(x *Request, body []byte) (Handed, error) {
	h := Handed{}
	found, ok := rawjson.Members(body, "usage", kvTransferParams)
	params := found[1]
	h.Usage, h.Known = answer.UsageIn(x.API, found[0])
	if err := checkParams(params, ok); err != nil {
		return h, err
	}
	// Without these a decoder fails (observed with vLLM 0.32.0; older versions have no remote_request_id).
	names := [...]string{
		"remote_engine_id", "remote_block_ids", "remote_host", "remote_port", "do_remote_prefill",
		"remote_prefill_cached_tokens",
	}
	const needed = 4 // of these
	said, _ := rawjson.Members(params, names[:]...)
	if string(said[needed]) != "true" {
		return h, ErrNoParams
	}
	for i, name := range names[:needed] {
		if rawjson.IsNull(said[i]) {
			return h, fmt.Errorf("engine: the prefiller's kv_transfer_params lack %s", name)
		}
	}
	h.Params, h.Honest = params, !rawjson.IsNull(said[needed+1])
	return h, nil
}

// Decode implements Connector: the client's own request with the prefiller's parameters.
func (Nixl) Decode(_ *Request, h *Handed) (Message, error) {
	if h == nil || !bytes.HasPrefix(h.Params, []byte("{")) {
		return Message{}, ErrNoParams
	}
	return Message{Set: []Member{{kvTransferParams, h.Params}}}, nil
}

// Keeps implements Connector: once a decoder may have fetched the blocks, they may be reused, and a second decoder
// would answer from another prompt.
func (Nixl) Keeps(sent bool) bool { return !sent }

var _ Connector = Nixl{}
