package handover_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
)

// TestMooncakeAsDocumented: the parameters of both legs, with the ids from the bootstrap server (vLLM 0.32.0,
// mooncake_connector.py and mooncake_utils.py).
func TestMooncakeAsDocumented(t *testing.T) {
	const told = `{"0":{"engine_id":"7d1c-e0","worker_addr":{"0":{"0":"tcp://10.0.0.5:4321"}}},"1":{"engine_id":"7d1c-e1","worker_addr":{}}}`
	x := pairOf(t, answer.APIChat,
		`{"max_tokens":9,"stream":true,"stream_options":{},"kv_transfer_params":{"do_remote_prefill":true}}`, 1)
	x.ID, x.Random = "req-1", 0xabc
	if got := (handover.Mooncake{}).Inquiry(x); got != "http://10.0.0.5:8998/query" {
		t.Error(got)
	}
	x.InquiryAnswer = []byte(told)
	p, err := handover.Mooncake{}.Prefill(x)
	if want := `{"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"xfer-req-1-abc"},"stream":false,"max_tokens":1,"stream_options":null}`; err != nil || setOf(p) != want {
		t.Errorf("%s, %v", setOf(p), err)
	}
	for rank, id := range map[int]string{-1: "7d1c-e0", 0: "7d1c-e0", 1: "7d1c-e1", 2: "7d1c-e0_dp2"} {
		x.Prefiller.Part = fleet.Part{}
		if rank >= 0 {
			x.Prefiller.Part = fleet.Part{Kind: fleet.Rank, Index: rank}
		}
		d, err := handover.Mooncake{}.Decode(x, nil)
		if want := `{"kv_transfer_params":{"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":"xfer-req-1-abc","remote_engine_id":"` + id + `","remote_bootstrap_addr":"http://10.0.0.5:8998"}}`; err != nil || setOf(d) != want {
			t.Errorf("rank %d: %s, %v", rank, setOf(d), err)
		}
	}
	x.Prefiller.Part = fleet.Part{}
	for _, nothing := range []string{``, `{}`, `{"detail":"Not Found"}`, `{"0":{}}`, `[1]`, `{"0":{"engine_id":5}}`} {
		x.InquiryAnswer = []byte(nothing)
		d, _ := handover.Mooncake{}.Decode(x, nil)
		if want := `{"kv_transfer_params":{"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":"xfer-req-1-abc","remote_host":"10.0.0.5","remote_port":8998,"bootstrap_server_host":"10.0.0.5","bootstrap_server_port":8998}}`; setOf(d) != want {
			t.Errorf("%s: %s", nothing, setOf(d))
		}
	}
	first := setOf(p)
	x.Attempt, x.Random = 1, 0xdef
	if p, _ = (handover.Mooncake{}).Prefill(x); setOf(p) == first || !strings.Contains(setOf(p), `"xfer-req-1-1-def"`) {
		t.Errorf("another attempt has the id of the first: %s", setOf(p))
	}
	x.Prefiller.URL = "http://[fd00::5]:8000"
	if got := (handover.Mooncake{}).Inquiry(x); got != "http://[fd00::5]:8998/query" {
		t.Error(got)
	}
}

// TestMooncakeReply: only its usage matters.
func TestMooncakeReply(t *testing.T) {
	x := pairOf(t, answer.APIChat, `{}`, 1)
	h, err := handover.Mooncake{}.Reply(x, []byte(`{"kv_transfer_params":null,"usage":{"prompt_tokens":40,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":16}}}`))
	if err != nil || !h.Known || h.Usage.CachedTokens != 16 || h.Params != nil {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := (handover.Mooncake{}).Reply(x, []byte("oops")); err == nil {
		t.Error("no JSON was taken for a reply")
	}
}

// FuzzMooncakeTold: for any bootstrap reply, the parameters are JSON, and an id in them is a string.
func FuzzMooncakeTold(f *testing.F) {
	f.Add([]byte(`{"0":{"engine_id":"7d1c","worker_addr":{"0":{"0":"tcp://10.0.0.5:4321"}}}}`), 2)
	f.Add([]byte(`{"1":{"engine_id":"a\"b"}}`), 1)
	f.Add([]byte(`{"0":{"engine_id":null}}`), 0)
	x := handoffOf(answer.APIChat, nil)
	x.Prefiller = fleet.Endpoint{URL: "http://p:1", Part: fleet.Part{Kind: fleet.Rank}}
	f.Fuzz(func(t *testing.T, told []byte, rank int) {
		x.InquiryAnswer, x.Prefiller.Part.Index = told, rank
		m, err := handover.Mooncake{}.Decode(x, nil)
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			ID any `json:"remote_engine_id"`
		}
		if err := json.Unmarshal(m.Set[0].JSON, &v); err != nil && json.Valid(told) {
			t.Fatalf("%s of %q: %v", m.Set[0].JSON, told, err)
		}
		if _, text := v.ID.(string); v.ID != nil && !text {
			t.Fatalf("%s of %q", m.Set[0].JSON, told)
		}
	})
}
