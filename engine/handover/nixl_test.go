package handover_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
)

// captured is a leg of testdata/nixl.json.
type captured struct {
	Path    string
	Request map[string]json.RawMessage
	Reply   json.RawMessage
	SSE     []string
}

func capturedLegs(t testing.TB) map[string]captured {
	t.Helper()
	b, err := os.ReadFile("testdata/nixl.json")
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		t.Fatal(err)
	}
	legs := map[string]captured{}
	for name, r := range raw {
		var c captured
		if name != "about" {
			if err := json.Unmarshal(r, &c); err != nil {
				t.Fatal(err)
			}
			var reply bytes.Buffer
			if c.Reply != nil && json.Compact(&reply, c.Reply) == nil {
				c.Reply = reply.Bytes() // as the engine writes it
			}
		}
		legs[name] = c
	}
	return legs
}

// handoffOf is the handoff for a client's body.
func handoffOf(api string, body map[string]json.RawMessage) *handover.Request {
	return &handover.Request{API: api, ID: "r", Answers: 1, Field: func(name string) []byte { return body[name] }}
}

// with is a body with members set.
func with(body map[string]json.RawMessage, set []handover.Member) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for k, v := range body {
		out[k] = v
	}
	for _, m := range set {
		out[m.Name] = m.JSON
	}
	return out
}

func plain(t *testing.T, body map[string]json.RawMessage) map[string]any {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestNixlAsCaptured: both legs of a request are those observed between two real engines.
func TestNixlAsCaptured(t *testing.T) {
	legs := capturedLegs(t)
	for name, api := range map[string]string{
		"chat_plain": answer.APIChat, "small_prompt": answer.APICompletions, "completions_plain": answer.APICompletions,
	} {
		p, d := legs[name+"_P"], legs[name+"_D"]
		client := with(d.Request, nil)
		delete(client, "kv_transfer_params")
		x := handoffOf(api, client)
		ask, err := handover.Nixl{}.Prefill(x)
		if err != nil || ask.Path != "" || len(ask.Header) != 0 {
			t.Fatalf("%s: %+v, %v", name, ask, err)
		}
		if diff := cmp.Diff(plain(t, p.Request), plain(t, with(client, ask.Set))); diff != "" {
			t.Errorf("%s: the prefill leg: -captured +made\n%s", name, diff)
		}
		h, err := handover.Nixl{}.Reply(x, p.Reply)
		if err != nil || !bytes.Contains(p.Reply, h.Params) || !h.Known || h.Usage.PromptTokens == 0 ||
			!h.Usage.CachedKnown || !h.Honest {
			t.Fatalf("%s: %+v, %v", name, h, err)
		}
		answer, err := handover.Nixl{}.Decode(x, &h)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain(t, d.Request), plain(t, with(client, answer.Set))); diff != "" {
			t.Errorf("%s: the decode leg: -captured +made\n%s", name, diff)
		}
	}
	for name, api := range map[string]string{
		"other_v1_responses_P": answer.APIResponses, "other_v1_messages_P": answer.APIMessages,
	} {
		h, err := handover.Nixl{}.Reply(handoffOf(api, nil), legs[name].Reply)
		if err != nil || h.Usage.PromptTokens == 0 {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	if sse := strings.Join(legs["P_killed_fail_2_D"].SSE, "\n\n") + "\n\n"; !answer.NoAnswer(nil, []byte(sse)) {
		t.Errorf("this is taken for an answer: %s", sse)
	}
}

// TestNixlPrefillLimits: for any client limits, one token is requested, without anything that a real engine rejects.
func TestNixlPrefillLimits(t *testing.T) {
	body := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(`{"max_tokens":5,"max_completion_tokens":7,"min_tokens":3,"stream":true,"stream_options":{"include_usage":true},"kv_transfer_params":{"do_remote_prefill":true}}`), &body); err != nil {
		t.Fatal(err)
	}
	for api, want := range map[string]string{
		answer.APIChat: `{"max_tokens":1,"max_completion_tokens":1,"min_tokens":0,"stream":false,` +
			`"stream_options":null}`,
		answer.APICompletions: `{"max_tokens":1,"max_completion_tokens":7,"min_tokens":0,"stream":false,` +
			`"stream_options":null}`,
		answer.APIResponses: `{"max_tokens":5,"max_completion_tokens":7,"max_output_tokens":1,"min_tokens":0,"stream":false,"stream_options":null}`,
	} {
		m, err := handover.Nixl{}.Prefill(handoffOf(api, body))
		if err != nil {
			t.Fatal(err)
		}
		got := with(body, m.Set)
		var v map[string]json.RawMessage
		_ = json.Unmarshal([]byte(want), &v)
		v["kv_transfer_params"] = json.RawMessage(`{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`)
		if diff := cmp.Diff(plain(t, v), plain(t, got)); diff != "" {
			t.Errorf("%s: -want +got\n%s", api, diff)
		}
	}
}

// TestNixlReplies: parameters are passed on unchanged, including large numbers and unknown members, or not at all.
func TestNixlReplies(t *testing.T) {
	const good = `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":%,"remote_engine_id":"e","remote_host":"h","remote_port":5600,"new":12345678901234567890}`
	x := handoffOf(answer.APIChat, nil)
	for _, blocks := range []string{"[1,2]", "[[1,2],[3]]", "[ ]"} {
		params := strings.Replace(good, "%", blocks, 1)
		h, err := handover.Nixl{}.Reply(x,
			[]byte(`{"choices":[{"message":{"content":"\"kv_transfer_params\":{"}}],"kv_transfer_params": `+params+
				`,"usage":{"prompt_tokens":3}}`))
		if err != nil || string(h.Params) != params || h.Honest || h.Usage.PromptTokens != 3 {
			t.Errorf("%s: %q, %v", params, h.Params, err)
		}
	}
	for _, reply := range []string{
		`{}`, `{"kv_transfer_params":null}`, `{"kv_transfer_params":{"do_remote_prefill":false}}`,
	} {
		if _, err := (handover.Nixl{}).Reply(x, []byte(reply)); !errors.Is(err, handover.ErrNoParams) {
			t.Errorf("%s: %v", reply, err)
		}
	}
	for _, reply := range []string{
		``, `[]`, `{"kv_transfer_params":5}`, `{"kv_transfer_params":{"do_remote_prefill":true}}`,
		`{"kv_transfer_params":{"do_remote_prefill":true,"remote_engine_id":"e"`,
	} {
		if h, err := (handover.Nixl{}).Reply(x, []byte(reply)); err == nil || h.Params != nil {
			t.Errorf("%q was taken for a hand-over: %q", reply, h.Params)
		}
	}
	if _, err := (handover.Nixl{}).Decode(x, nil); err == nil {
		t.Error("a decoder was asked with nothing handed over")
	}
}

// TestNixlFits: requests with several prompts or answers are not split.
func TestNixlFits(t *testing.T) {
	for body, fits := range map[string]bool{
		`{}`: true, `{"best_of":1}`: true, `{"best_of":2}`: false, `{"prompt":"x"}`: true, `{"prompt":[1,2]}`: true,
		`{"prompt":["a"]}`: false, `{"prompt":[[1]]}`: false, `{"echo":true}`: false, `{"echo":false}`: true,
		`{"prompt_logprobs":0}`: false, `{"prompt_logprobs":null}`: true, `{"use_beam_search":true}`: false,
	} {
		var v map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		if err := (handover.Nixl{}).Fits(handoffOf(answer.APICompletions, v)); (err == nil) != fits {
			t.Errorf("%s: %v", body, err)
		}
	}
	x := handoffOf(answer.APIChat, nil)
	if x.Answers = 2; (handover.Nixl{}).Fits(x) == nil {
		t.Error("n=2 fits")
	}
	if (handover.Nixl{}).Fits(handoffOf(answer.APIOllamaChat, nil)) == nil {
		t.Error("Ollama's API fits")
	}
}

// FuzzNixlReply: for any reply, nothing panics, and what is passed on is a JSON object of the reply.
func FuzzNixlReply(f *testing.F) {
	for _, leg := range capturedLegs(f) {
		f.Add([]byte(leg.Reply))
	}
	f.Add([]byte(`{"kv_transfer_params":{"do_remote_prefill":true,"remote_engine_id":"","remote_block_ids":[],"remote_host":"","remote_port":0}}`))
	f.Add([]byte(`{"kv_transfer_params":{"do_remote_prefill":true,"remote_engine_id":"","remote_block_ids":[0],"remote_host":"","remote_port":0]}`))
	x := handoffOf(answer.APIChat, nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		h, err := handover.Nixl{}.Reply(x, body)
		if err != nil {
			return
		}
		if !bytes.Contains(body, h.Params) || h.Params[0] != '{' || h.Params[len(h.Params)-1] != '}' {
			t.Fatalf("%q of %q", h.Params, body)
		}
		if json.Valid(body) && !json.Valid(h.Params) {
			t.Fatalf("%q is no JSON", h.Params)
		}
	})
}

// TestNixlReturned: a decoder's parameters are found in plain answers and at the end of streams, and not in text about
// them; the next prefiller gets them with the direction reversed and otherwise unchanged.
func TestNixlReturned(t *testing.T) {
	const held = `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[4,5]],"remote_engine_id":"e","remote_request_id":"r",` +
		`"remote_host":"localhost","remote_port":5600,"n":12345678901234567890,"remote_num_tokens":33}`
	for in, want := range map[string]string{
		`{"choices":[],"kv_transfer_params":` + held + `}`: held,
		`data: {"choices":[]}` + "\n\n" + `data: {"x":1,"kv_transfer_params": ` + held + `,"usage":{}}` +
			"\n\ndata: [DONE]\n\n": held,
		`t_transfer_params": {"remote_engine_id":"cut","kv_transfer_params":` + held +
			`}`: held,
		`{"kv_transfer_params":null}`:                                               "",
		`{"kv_transfer_params":[1]}`:                                                "",
		`{"kv_transfer_params":{"remote_engine_id":"e"}}`:                           "",
		`{"kv_transfer_params":` + held[:60]:                                        "",
		`{"content":"it says \"kv_transfer_params\":{\"remote_engine_id\":\"x\"}"}`: "",
		`{"kv_transfer_params"`:                                                     "",
		`{}`:                                                                        "",
		``:                                                                          "",
	} {
		if got := string(handover.Nixl{}.Returned([]byte(in))); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	x := handover.Request{API: answer.APIChat, Answers: 1, Field: func(string) []byte {
		return nil
	}, Before: &handover.Before{Params: []byte(held), Host: "10.0.0.7"}}
	m, err := handover.Nixl{}.Prefill(&x)
	want := `{"do_remote_decode":true,"do_remote_prefill":false,"remote_host":"10.0.0.7","remote_block_ids":[[4,5]],"remote_engine_id":"e","remote_request_id":"r",` +
		`"remote_port":5600,"n":12345678901234567890,"remote_num_tokens":33}`
	if err != nil || m.Set[0].Name != "kv_transfer_params" || string(m.Set[0].JSON) != want {
		t.Errorf("%v, %s", err, m.Set[0].JSON)
	}
}

// FuzzNixlReturned: for any end of an answer, what is found is an object in it, and valid for the next prefiller.
func FuzzNixlReturned(f *testing.F) {
	f.Add([]byte(`{"kv_transfer_params":{"remote_block_ids":[[4,5]],"remote_engine_id":"e","remote_request_id":"r","remote_host":"h","remote_port":1}}`))
	f.Add([]byte(`"kv_transfer_params":{"kv_transfer_params":{}}`))
	f.Add([]byte(`\"kv_transfer_params":{`))
	f.Fuzz(func(t *testing.T, end []byte) {
		held := handover.Nixl{}.Returned(end)
		if held == nil {
			return
		}
		if !bytes.Contains(end, held) || held[0] != '{' {
			t.Fatalf("%q gives %q", end, held)
		}
		x := handover.Request{API: answer.APIChat, Answers: 1, Field: func(string) []byte {
			return nil
		}, Before: &handover.Before{Params: held, Host: "h"}}
		if m, err := (handover.Nixl{}).Prefill(&x); err != nil || json.Valid(held) && !json.Valid(m.Set[0].JSON) {
			t.Fatalf("%q becomes %q, %v", held, m.Set[0].JSON, err)
		}
	})
}
