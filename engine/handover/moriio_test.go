package handover_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
)

// The patterns by which engines find the other's address in a request id (vLLM 0.32.0, moriio_common.py).
var (
	prefillAddress = regexp.MustCompile(`___prefill_addr_(.+?)___decode_addr_`)
	decodeAddress  = regexp.MustCompile(`___decode_addr_(.+)_[0-9a-f]{32}(?:-.*)?$`)
)

func moriPair(t testing.TB) *handover.Request {
	t.Helper()
	x := pairOf(t, answer.APIChat, `{"max_tokens":9,"stream":true}`, 1)
	x.ID, x.Random = "req-1", 0xabc
	x.Prefiller.KVAddress, x.Decoder.KVAddress = "host:10.0.0.5,handshake:6301,notify:61005",
		"host:fd00::6,handshake:6302,notify:61006"
	x.Prefiller.TPSize, x.Decoder.TPSize = 4, 8
	x.Prefiller.Part, x.PrefillerPeer.Ranks = fleet.Part{Kind: fleet.Rank, Index: 1}, 2
	return x
}

func header(m handover.Message, name string) string {
	for _, h := range m.Header {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// TestMoRIIOAsDocumented: each engine is told the other's address, in the request id and in the parameters.
func TestMoRIIOAsDocumented(t *testing.T) {
	x := moriPair(t)
	p, err := handover.MoRIIO{}.Prefill(x)
	if err != nil {
		t.Fatal(err)
	}
	d, err := handover.MoRIIO{}.Decode(x, nil)
	if err != nil {
		t.Fatal(err)
	}
	id := header(p, "X-Request-Id")
	if id == "" || id != header(d, "X-Request-Id") {
		t.Fatalf("the legs have the ids %q and %q", id, header(d, "X-Request-Id"))
	}
	for _, wrapped := range []string{id, "chatcmpl-" + id, "cmpl-" + id + "-0-1a2b3c4d"} { // as vLLM wraps it
		if m := prefillAddress.FindStringSubmatch(wrapped); m == nil || m[1] != x.Prefiller.KVAddress {
			t.Errorf("%s: the decoder finds %v", wrapped, m)
		}
		if m := decodeAddress.FindStringSubmatch(wrapped); m == nil || m[1] != x.Decoder.KVAddress {
			t.Errorf("%s: the prefiller finds %v", wrapped, m)
		}
	}
	transfer := "tx-" + id[len(id)-32:]
	if want := `{"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"transfer_id":"` + transfer +
		`","remote_host":"fd00::6","remote_port":6302,"remote_handshake_port":6302,"remote_notify_port":61006,"remote_dp_size":1,"remote_tp_size":8},"stream":false,"max_tokens":1}`; setOf(p) != want {
		t.Errorf("prefill\ngot  %s\nwant %s", setOf(p), want)
	}
	if want := `{"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"transfer_id":"` + transfer +
		`","remote_host":"10.0.0.5","remote_port":6301,"remote_handshake_port":6301,"remote_notify_port":61005,"remote_dp_size":2,"remote_tp_size":4,"remote_dp_rank":1,"remote_dp_rank_override":true}}`; setOf(d) != want {
		t.Errorf("decode\ngot  %s\nwant %s", setOf(d), want)
	}
	x.Random++
	if again, _ := (handover.MoRIIO{}).Prefill(x); header(again, "X-Request-Id") == id {
		t.Error("another attempt has the same id")
	}
}

// moriReply is a prefiller's reply in read mode (moriio_connector.py, request_finished).
func moriReply(t testing.TB, x *handover.Request) (params, body string) {
	t.Helper()
	p, err := handover.MoRIIO{Read: true}.Prefill(x)
	if err != nil {
		t.Fatal(err)
	}
	id := header(p, "X-Request-Id")
	params = `{"do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": [[1, 2]], "remote_engine_id": "e:handshake:6301", "remote_host": "10.0.0.5", "remote_handshake_port": 6301, "remote_notify_port": 61005, ` +
		`"remote_dp_rank": 1, "remote_dp_rank_override": true, "remote_dp_size": 2, "remote_dp_size_local": 2, "tp_size": 4, "transfer_id": "tx-` + id[len(id)-32:] + `", "new": 12345678901234567890}`
	return params, `{"choices":[],"kv_transfer_params":` + params +
		`,"usage":{"prompt_tokens":40,"completion_tokens":1}}`
}

// TestMoRIIORead: the decoder gets the prefiller's parameters unchanged, for this transfer only.
func TestMoRIIORead(t *testing.T) {
	x, m := moriPair(t), handover.MoRIIO{Read: true}
	params, body := moriReply(t, x)
	h, err := m.Reply(x, []byte(body))
	if err != nil || string(h.Params) != params || h.Usage.PromptTokens != 40 {
		t.Fatalf("%+v, %v", h, err)
	}
	d, err := m.Decode(x, &h)
	if err != nil || string(d.Set[0].JSON) != `{"remote_tp_size":4,`+params[1:] || header(d, "X-Request-Id") == "" {
		t.Errorf("%s, %v", setOf(d), err)
	}
	other := moriPair(t)
	other.Random = 5
	if _, err := m.Reply(other, []byte(body)); err == nil {
		t.Error("the reply of another transfer was taken")
	}
	for _, bad := range []string{
		``, `{}`, `{"kv_transfer_params":{}}`, `{"kv_transfer_params":7}`,
		strings.Replace(body, `"remote_engine_id"`, `"engine"`, 1),
	} {
		if h, err := m.Reply(x, []byte(bad)); err == nil || h.Params != nil {
			t.Errorf("%q was taken for a hand-over", bad)
		}
	}
	if _, err := m.Reply(x, []byte(`{"kv_transfer_params":null}`)); !errors.Is(err, handover.ErrNoParams) {
		t.Errorf("%v", err)
	}
	if _, err := m.Decode(x, nil); err == nil {
		t.Error("a decoder was asked with nothing handed over")
	}
}

// TestMoRIIOAddresses: an endpoint without a valid address cannot take part.
func TestMoRIIOAddresses(t *testing.T) {
	for s, want := range map[string]string{
		"host:10.0.0.5,handshake:6301,notify:61005": "10.0.0.5", "host:fd00::5, handshake:1, notify:2": "fd00::5",
		"": "", "10.0.0.5:6301": "", "host:a,handshake:x,notify:2": "", "host:a,handshake:1": "",
		"host:a,handshake:1,notify:70000": "", "host:a_b,handshake:1,notify:2": "",
	} {
		a, err := fleet.ParseKVAddress(s)
		if (err == nil) != (want != "") || a.Host != want {
			t.Errorf("%q: %+v, %v", s, a, err)
		}
	}
	x := moriPair(t)
	x.Decoder.KVAddress = ""
	if _, err := (handover.MoRIIO{}).Prefill(x); err == nil || !strings.Contains(err.Error(), "d has no kv_address") {
		t.Errorf("%v", err)
	}
}

// FuzzMoRIIOReply: for any reply, what is passed on is a complete part of it.
func FuzzMoRIIOReply(f *testing.F) {
	x := moriPair(f)
	_, body := moriReply(f, x)
	f.Add([]byte(body))
	f.Add([]byte(`{"kv_transfer_params":{"remote_engine_id":1,"remote_block_ids":[],"transfer_id":"tx-0"}}`))
	m := handover.MoRIIO{Read: true}
	f.Fuzz(func(t *testing.T, body []byte) {
		h, err := m.Reply(x, body)
		if err != nil {
			return
		}
		d, err := m.Decode(x, &h)
		if err != nil || !bytes.Contains(body, h.Params) || json.Valid(body) && !json.Valid(d.Set[0].JSON) {
			t.Fatalf("%s, %v of %q", setOf(d), err, body)
		}
	})
}
