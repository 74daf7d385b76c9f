package handover_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
)

// disaggLines are the texts of testdata/trtllm_disagg.txt: client, context, reply, generation.
func disaggLines(t testing.TB) (lines [4][]byte) {
	t.Helper()
	b, err := os.ReadFile("testdata/trtllm_disagg.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(b) {
		if line[0] == '{' {
			lines[n] = bytes.TrimSpace(line)
			n++
		}
	}
	return lines
}

func membersIn(t testing.TB, body []byte) map[string]json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return m
}

// exactly compares bodies member by member as bytes, without parsing numbers.
func exactly(t *testing.T, what string, want []byte, got map[string]json.RawMessage) {
	t.Helper()
	text := func(m map[string]json.RawMessage) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			out[k] = string(v)
		}
		return out
	}
	if diff := cmp.Diff(text(membersIn(t, want)), text(got)); diff != "" {
		t.Errorf("%s: -documented +made\n%s", what, diff)
	}
}

// documentedID is the documented id, made from this number.
const documentedID = 1234567890123456789

func trtHandoff(t testing.TB, api string, body []byte) *handover.Request {
	x := handoffOf(api, membersIn(t, body))
	x.Number = documentedID - 1<<40
	return x
}

// TestTRTLLMAsDocumented: both legs equal the documented bytes, including 64-bit ids and unknown members.
func TestTRTLLMAsDocumented(t *testing.T) {
	l := disaggLines(t)
	x := trtHandoff(t, answer.APIChat, l[0])
	ask, err := handover.TRTLLM{}.Prefill(x)
	if err != nil || ask.Header != nil {
		t.Fatalf("%+v, %v", ask, err)
	}
	exactly(t, "context leg", l[1], with(membersIn(t, l[0]), ask.Set))
	h, err := handover.TRTLLM{}.Reply(x, l[2])
	if err != nil || h.Whole || !h.Known || !h.Honest || h.Usage.PromptTokens != 9 || !h.Usage.CachedKnown {
		t.Fatalf("%+v, %v", h, err)
	}
	answer, err := handover.TRTLLM{}.Decode(x, &h)
	if err != nil {
		t.Fatal(err)
	}
	exactly(t, "generation leg", l[3], with(membersIn(t, l[0]), answer.Set))
}

// TestTRTLLMCompletions: the prompt becomes the token ids, and a list of one prompt is one prompt.
func TestTRTLLMCompletions(t *testing.T) {
	l := disaggLines(t)
	for _, prompt := range []string{`"hi"`, `["hi"]`, `[ [5,6] ]`, `[5,6]`} {
		x := trtHandoff(t, answer.APICompletions, []byte(`{"model":"m","prompt":`+prompt+`}`))
		if err := (handover.TRTLLM{}).Fits(x); err != nil {
			t.Fatalf("%s: %v", prompt, err)
		}
		ask, err := handover.TRTLLM{}.Prefill(x)
		if err != nil {
			t.Fatal(err)
		}
		sent := string(with(membersIn(t, []byte(`{"prompt":`+prompt+`}`)), ask.Set)["prompt"])
		if want := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(prompt, "["), "]")); sent != want &&
			sent != prompt {
			t.Errorf("%s: the context worker is sent %s", prompt, sent)
		}
		h, err := handover.TRTLLM{}.Reply(x, l[2])
		if err != nil {
			t.Fatal(err)
		}
		answer, err := handover.TRTLLM{}.Decode(x, &h)
		if err != nil || string(with(nil, answer.Set)["prompt"]) != "[1,2,3,4,5,6,7,8,9]" {
			t.Errorf("%s: %+v, %v", prompt, answer, err)
		}
	}
	for _, body := range []string{
		`{"prompt":["a","b"]}`, `{"prompt":[[1],[2]]}`, `{"prompt":"a","echo":true}`, `{"prompt":["a"],"best_of":2}`,
	} {
		if (handover.TRTLLM{}).Fits(handoffOf(answer.APICompletions, membersIn(t, []byte(body)))) == nil {
			t.Errorf("%s fits", body)
		}
	}
	if (handover.TRTLLM{}).Fits(handoffOf(answer.APIResponses, nil)) == nil {
		t.Error("an API without a protocol fits")
	}
}

// TestTRTLLMCaptured: what a context worker's HTTP layer was seen to answer reaches the generation worker as it is,
// with what that worker's protocol has besides: none that it refuses.
func TestTRTLLMCaptured(t *testing.T) {
	for _, test := range []struct {
		file, api, body, prompt string
		tokens                  int
	}{
		{"context_chat_completions.json", answer.APIChat, `{"model":"m","messages":[]}`, "prompt_token_ids", 78},
		{"context_completions.json", answer.APICompletions, `{"model":"m","prompt":"a b c"}`, "prompt", 3},
	} {
		reply, err := os.ReadFile("../testdata/trtllm/0076e939/" + test.file)
		if err != nil {
			t.Fatal(err)
		}
		x := trtHandoff(t, test.api, []byte(test.body))
		h, err := handover.TRTLLM{}.Reply(x, reply)
		if err != nil || h.Whole || !h.Known || h.Usage.PromptTokens != test.tokens || !h.Usage.CachedKnown {
			t.Fatalf("%s: %+v, %v", test.file, h, err)
		}
		told, err := handover.TRTLLM{}.Decode(x, &h)
		if err != nil {
			t.Fatal(err)
		}
		set := with(nil, told.Set)
		var ids []int
		if json.Unmarshal(set[test.prompt], &ids) != nil || len(ids) != test.tokens {
			t.Errorf("%s: the prompt is %s", test.file, set[test.prompt])
		}
		exactly(t, test.file, []byte(`{"request_type":"generation_only","first_gen_tokens":[1],"first_gen_log_probs":null,"first_gen_logits":null,`+
			`"ctx_request_id":1234567890123456789,"encoded_opaque_state":"AG9wYXF1ZSBzdGF0Zf8=","draft_tokens":null,`+
			`"disagg_request_id":1234567890123456789,"ctx_dp_rank":0,"ctx_info_endpoint":"tcp://127.0.0.1:5555","schedule_style":0,`+
			`"ctx_usage":`+string(membersIn(t, reply)["usage"])+
			`,"return_prompt_token_ids_b64":false,"resolved_thinking":null}`),
			membersIn(t, set["disaggregated_params"]))
	}
}

// TestTRTLLMReplies: errors name what is missing or wrong in a context worker's reply.
func TestTRTLLMReplies(t *testing.T) {
	x := handoffOf(answer.APIChat, nil)
	good := `{"request_type":"context_only","ctx_request_id":5,"disagg_request_id":6}`
	choice := func(params, finish string) string {
		return `{"index":0,"message":{"content":"H"},"finish_reason":` + finish + `,"disaggregated_params":` +
			params + `}`
	}
	for _, c := range []struct{ body, err string }{
		{`nonsense`, "not a JSON object"},
		{`{}`, "no choice"},
		{`{"choices":[]}`, "no choice"},
		{
			`{"choices":[` + choice(good, `"length"`) + `,` + choice(good, `"length"`) + `]}`,
			"several choices, where exactly one is needed",
		},
		{`{"choices":[7]}`, "not a JSON object"},
		{`{"choices":[` + choice("null", `"length"`) + `]}`, "no parameters"},
		{`{"choices":[` + choice("[1]", `"length"`) + `]}`, "are not an object"},
		{
			`{"choices":[` + choice(`{"ctx_request_id":5}`, `"length"`) + `]}`,
			`lack disagg_request_id (finish_reason "length", ctx_request_id 5, disagg_request_id null)`,
		},
		{
			`{"choices":[` + choice(`{"ctx_request_id":null,"disagg_request_id":6}`, `"not_finished"`) + `]}`,
			"lack ctx_request_id",
		},
		{
			`{"choices":[` + choice(`{"ctx_request_id":-1,"disagg_request_id":6}`, `"length"`) + `]}`,
			"lack ctx_request_id",
		},
		{`{"choices":[` + choice(good, `"length"`) + `],"prompt_token_ids":[1,2,]}`, "not a list of token ids"},
		{`{"choices":[` + choice(good, `"length"`) + `],"prompt_token_ids":"x"}`, "not a list of token ids"},
		{`{"choices":[` + choice(good, `"length"`) + `]`, "not a JSON object"},
	} {
		_, err := handover.TRTLLM{}.Reply(x, []byte(c.body))
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.body, err, c.err)
		}
	}
	if _, err := (handover.TRTLLM{}).Reply(x, []byte(`{"choices":[`+choice("null", `"length"`)+`]}`)); !errors.Is(err,
		handover.ErrNoParams) {
		t.Errorf("%v, want ErrNoParams", err)
	}
}

// TestTRTLLMKeepsUnknown: all members are passed on in order and as bytes; the router's own are replaced.
func TestTRTLLMKeepsUnknown(t *testing.T) {
	x := handoffOf(answer.APIChat, membersIn(t, []byte(`{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi, [you]"}],"prompt_token_ids":[9]}`)))
	params := `{"request\u005ftype":"context_only", "schedule_style":7, "ctx_usage":{"prompt_tokens":1}, "new": [1.50, {"a":18446744073709551615}], "draft_tokens":[3,4],"ctx_request_id":9223372036854775807,"disagg_request_id":1099511627776}`
	body := `{"choices":[{"finish_reason":"not_finished","disaggregated_params":` + params +
		`}],"prompt_token_ids_b64":"AQAAAAIAAAA="}`
	c := handover.TRTLLM{TRTLLMOptions: handover.TRTLLMOptions{TokenIDsBase64: true, LastMessageOnly: true}}
	h, err := c.Reply(x, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"request_type":"generation_only","new": [1.50, {"a":18446744073709551615}],"draft_tokens":[3,4],"ctx_request_id":9223372036854775807,"disagg_request_id":1099511627776,"schedule_style":0}`
	if string(h.Params) != want {
		t.Errorf("got  %s\nwant %s", h.Params, want)
	}
	m, err := c.Decode(x, &h)
	got := with(nil, m.Set)
	if err != nil ||
		string(got["prompt_token_ids_b64"]) != `"AQAAAAIAAAA="` || string(got["prompt_token_ids"]) != "null" ||
		string(got["messages"]) != `[{"role":"user","content":"hi, [you]"}]` {
		t.Errorf("%s, %v", got, err)
	}
	x = handoffOf(answer.APICompletions, nil)
	if h, err = c.Reply(x, []byte(body)); err != nil || len(h.More) != 1 || string(h.More[0].JSON) != "[1,2]" ||
		h.More[0].Name != "prompt" {
		t.Errorf("%+v, %v", h, err)
	}
	asked, err := c.Prefill(handoffOf(answer.APIChat, nil))
	if err != nil ||
		!bytes.Contains(with(nil, asked.Set)["disaggregated_params"], []byte(`"return_prompt_token_ids_b64":true`)) {
		t.Errorf("%+v, %v", asked, err)
	}
}

// TestTRTLLMGenerationFirst: the generation worker gets the id and the context worker's description.
func TestTRTLLMGenerationFirst(t *testing.T) {
	c := handover.TRTLLM{GenerationFirst: true}
	x := handoffOf(answer.APIChat, nil)
	x.Number, x.Session = documentedID-1<<40, "s1"
	x.About = `{"ctx_info_endpoint":["tcp://a:1","tcp://a:2"],"ctx_dp_rank":null,"request_type":"context_only","later":{"x":1}}`
	m, err := c.Decode(x, nil)
	want := `{"request_type":"generation_only","ctx_request_id":1234567890123456789,"disagg_request_id":1234567890123456789,"ctx_dp_rank":null,"later":{"x":1},"ctx_info_endpoint":"tcp://a:1","schedule_style":1}`
	if err != nil || string(with(nil, m.Set)["disaggregated_params"]) != want {
		t.Errorf("got  %s, %v\nwant %s", with(nil, m.Set), err, want)
	}
	if len(m.Header) != 1 || m.Header[0] != (handover.Header{Name: "X-Correlation-ID", Value: "s1"}) {
		t.Errorf("headers %v", m.Header)
	}
	ask, err := c.Prefill(x)
	want = `{"request_type":"context_only","disagg_request_id":1234567890123456789,"schedule_style":1}`
	if err != nil || string(with(nil, ask.Set)["disaggregated_params"]) != want {
		t.Errorf("%+v, %v", ask, err)
	}
	if x.About = `[1]`; func() bool { _, err := c.Decode(x, nil); return err == nil }() {
		t.Error("a list was taken for parameters")
	}
	x.About = ""
	if _, err := c.Decode(x, nil); err != nil {
		t.Error(err)
	}
	if c.Keeps(false) || (handover.TRTLLM{}).Keeps(true) || !(handover.TRTLLM{}).Keeps(false) {
		t.Error("what was fetched once must not be handed to another")
	}
}

// TestTRTLLMSigns: the signature equals that of Python's hmac and json (computed with CPython 3.11).
func TestTRTLLMSigns(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{`{"ctx_request_id":1,"disagg_request_id":2,"encoded_opaque_state":"BASE64","ctx_info_endpoint":"tcp://host:port"}`, "sha256=e029bade5de1830dcbce28f472870279326e8efaf1ba000d716b68f466c1d464"},
		{
			`{"ctx_request_id":1,"disagg_request_id":2,"ctx_info_endpoint":["tcp://host:port","b"]}`,
			"sha256=e2639afb910c2af11d5a00411c7bea54be71a1484c4b29a3efb9a9c61137f0d6",
		},
		{
			`{"ctx_request_id":1,"disagg_request_id":2,"encoded_opaque_state":"ü\"\n\u2028😀/\u007f"}`,
			"sha256=4317721e7b155b0f76c95eaf6dd696bb48f4d8c42b2180a3c94598c5f53cc873",
		},
		{`{"ctx_request_id":1,"disagg_request_id":2}`, ""},
	} {
		con := handover.TRTLLM{TRTLLMOptions: handover.TRTLLMOptions{Key: "secret"}}
		x := handoffOf(answer.APIChat, nil)
		h, err := con.Reply(x, []byte(`{"choices":[{"finish_reason":"length","disaggregated_params":`+c.params+`}]}`))
		if err != nil {
			t.Fatal(err)
		}
		m, err := con.Decode(x, &h)
		got := ""
		for _, header := range m.Header {
			if header.Name == "x-trtllm-disagg-auth" {
				got = header.Value
			}
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.params, got, err, c.want)
		}
	}
}

// TestTRTLLMWhole: an answer completed by the context worker goes to the client without the parts for routers, streamed
// too.
func TestTRTLLMWhole(t *testing.T) {
	x := handoffOf(answer.APIChat, nil)
	body := `{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Yes","tool_calls":[{"id":"t","type":"function"}]},"finish_reason":"stop","stop_reason":"x","disaggregated_params":{"ctx_request_id":1}}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10},"prompt_token_ids":[1,2]}`
	h, err := handover.TRTLLM{}.Reply(x, []byte(body))
	if err != nil || !h.Whole || h.Usage.OutputTokens != 1 {
		t.Fatalf("%+v, %v", h, err)
	}
	want := `{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Yes","tool_calls":[{"id":"t","type":"function"}]},"finish_reason":"stop","stop_reason":"x"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`
	if string(h.Answer) != want {
		t.Errorf("got  %s\nwant %s", h.Answer, want)
	}
	events, ok := handover.AsStream(answer.APIChat, h.Answer, true)
	const head = `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[`
	stream := head + `{"index":0,"delta":{"role":"assistant","content":"Yes","tool_calls":[{"index":0,"id":"t","type":"function"}]},"finish_reason":null}]}` + "\n\n" +
		head + `{"index":0,"delta":{},"finish_reason":"stop","stop_reason":"x"}]}` + "\n\n" +
		head + `],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}` + "\n\ndata: [DONE]\n\n"
	if !ok || string(events) != stream {
		t.Errorf("got  %s\nwant %s", events, stream)
	}
	events, ok = handover.AsStream(answer.APICompletions, []byte(`{"id":"c","object":"text_completion","choices":[{"index":0,"text":"Y","finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`), false)
	if want := `data: {"id":"c","object":"text_completion","choices":[{"index":0,"text":"Y","finish_reason":"stop"}]}` +
		"\n\ndata: [DONE]\n\n"; !ok || string(events) != want {
		t.Errorf("%s", events)
	}
	if _, ok := handover.AsStream(answer.APIChat, []byte(`{"choices":[]}`), false); ok {
		t.Error("an answer without choices became a stream")
	}
}

// TestDisaggID: ids are in the orchestrator's range for any number.
func TestDisaggID(t *testing.T) {
	for _, n := range []uint64{0, 1, 1<<63 - 2 - 1<<40, 1<<63 - 1 - 1<<40, 1 << 63, 1<<64 - 1} {
		if id := handover.DisaggID(n); id < 1<<40 || id >= 1<<63-1 {
			t.Errorf("%d becomes %d", n, id)
		}
	}
}

// FuzzTRTLLMReply: for any context worker's reply, the generation worker's request is JSON of type generation_only with
// unchanged ids, and the client gets JSON if the reply was.
func FuzzTRTLLMReply(f *testing.F) {
	l := disaggLines(f)
	f.Add(l[2])
	f.Add([]byte(`{"choices":[{"finish_reason":"stop","message":{"content":"x"}}]}`))
	f.Add([]byte(`{"choices":[{"finish_reason":"length","disaggregated_params":{"request_type":"a","request\u005ftype":"b","ctx_request_id":1,"disagg_request_id":2}}],"prompt_token_ids":[]}`))
	f.Add([]byte(`{"choices":[{"finish_reason":"length","disaggregated_params":{"ctx_request_id":1,"disagg_request_id":2}}],"prompt_token_ids_b64":"AAAA"}`))
	f.Add([]byte(`{"choices":[{"finish_reason":"length","disaggregated_params":{"request_tyPe":"a","request\u005ftype":"b","ctx_request_id":1,"disagg_request_id":2}}],"prompt_token_ids":[]}`))
	f.Add([]byte(`{"choices":[{"finish_reason":"length","disaggregated_params":{"ctx_request_id":1,"disagg_request_id":2}}],"prompt_token_ids":[1,02,3]}`))
	con := handover.TRTLLM{TRTLLMOptions: handover.TRTLLMOptions{Key: "k"}}
	f.Fuzz(func(t *testing.T, body []byte) {
		x := handoffOf(answer.APIChat, nil)
		h, err := con.Reply(x, body)
		if err != nil {
			return
		}
		if h.Whole {
			if json.Valid(body) != json.Valid(h.Answer) && json.Valid(body) {
				t.Errorf("%q became %q", body, h.Answer)
			}
			if events, ok := handover.AsStream(answer.APIChat, h.Answer, true); ok && json.Valid(body) {
				for line := range bytes.SplitSeq(events, []byte("\n\n")) {
					if data, is := bytes.CutPrefix(line, []byte("data: ")); is && string(data) != "[DONE]" &&
						!json.Valid(data) {
						t.Errorf("%q became the event %q", body, data)
					}
				}
			}
			return
		}
		m, err := con.Decode(x, &h)
		if err != nil {
			t.Fatal(err)
		}
		for _, member := range m.Set {
			if !json.Valid(member.JSON) {
				t.Errorf("%q became the member %s: %q", body, member.Name, member.JSON)
			}
		}
		var v map[string]json.RawMessage // a struct would also match names in other cases
		if err := json.Unmarshal(h.Params, &v); err != nil || string(v["request_type"]) != `"generation_only"` {
			t.Errorf("%q became %q", body, h.Params)
		}
		for _, id := range []string{"ctx_request_id", "disagg_request_id"} {
			if _, err := strconv.ParseUint(strings.Trim(string(v[id]), `"`), 10, 64); err != nil {
				t.Errorf("%q became %q", body, h.Params)
			}
		}
	})
}

// BenchmarkTRTLLMReply converts the reply to a prompt of 100,000 tokens, 700 kB, for the generation worker.
func BenchmarkTRTLLMReply(b *testing.B) {
	ids := []byte("[")
	for i := range 100_000 {
		ids = strconv.AppendInt(append(ids, ','), int64(100_000+i*7%900_000), 10)
	}
	ids = append(bytes.Replace(ids, []byte("[,"), []byte("["), 1), ']')
	body := bytes.Replace(disaggLines(b)[2], []byte("[1,2,3,4,5,6,7,8,9]"), ids, 1)
	x := handoffOf(answer.APIChat, nil)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		h, err := handover.TRTLLM{}.Reply(x, body)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := (handover.TRTLLM{}).Decode(x, &h); err != nil {
			b.Fatal(err)
		}
	}
}
