package handover_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
)

// pairOf is a handoff of a client's body between two endpoints.
func pairOf(t testing.TB, api, body string, answers int) *handover.Request {
	t.Helper()
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	x := handoffOf(api, v)
	x.Answers, x.Random = answers, 1<<63
	x.Prefiller, x.Decoder = fleet.Endpoint{Name: "p", URL: "http://10.0.0.5:30000"}, fleet.Endpoint{
		Name: "d", URL: "http://10.0.0.6:30000",
	}
	return x
}

// setOf is the members that a message sets, as one JSON object.
func setOf(m handover.Message) string {
	var parts []string
	for _, s := range m.Set {
		parts = append(parts, `"`+s.Name+`":`+string(s.JSON))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// TestSGLangAsDocumented: both legs get the same three members, as SMG sends them (model_gateway, PD over HTTP).
func TestSGLangAsDocumented(t *testing.T) {
	const three = `{"bootstrap_host":"10.0.0.5","bootstrap_port":8998,"bootstrap_room":4611686018427387904}`
	const two = `{"bootstrap_host":["10.0.0.5","10.0.0.5"],"bootstrap_port":[8998,8998],"bootstrap_room":[4611686018427387904,4611686018427387905]}`
	for _, c := range []struct {
		api, body string
		answers   int
		want      string
	}{
		{answer.APIChat, `{"messages":[]}`, 1, three},
		{answer.APIChat, `{"messages":[]}`, 2, two},
		{answer.APICompletions, `{"prompt":"x"}`, 1, three},
		{answer.APICompletions, `{"prompt":[1,2,3]}`, 1, three},
		{answer.APICompletions, `{"prompt":["a, [b]","c"]}`, 1, two},
		{answer.APICompletions, `{"prompt":["a"]}`, 2, two},
		{answer.APIGenerate, `{"text":"x"}`, 1, three},
		{answer.APIGenerate, `{"text":["x","y"]}`, 1, two},
		{answer.APIGenerate, `{"input_ids":[1,2]}`, 1, three},
		{answer.APIGenerate, `{"input_ids":[[1,2],[3]]}`, 1, two},
		{answer.APIGenerate, `{"text":"x"}`, 2, two},
		{answer.APIResponses, `{"input":"x"}`, 1, three},
	} {
		x := pairOf(t, c.api, c.body, c.answers)
		if err := (handover.SGLang{}).Fits(x); err != nil {
			t.Errorf("%s: %v", c.body, err)
		}
		p, err := handover.SGLang{}.Prefill(x)
		if err != nil {
			t.Fatal(err)
		}
		d, err := handover.SGLang{}.Decode(x, nil)
		if err != nil || setOf(p) != c.want || setOf(d) != c.want {
			t.Errorf("%s, n=%d:\nprefill %s\ndecode  %s\nwant    %s (%v)",
				c.body, c.answers, setOf(p), setOf(d), c.want, err)
		}
	}
	if handover.SGLang.Fits(handover.SGLang{}, pairOf(t, answer.APIMessages, `{}`, 1)) == nil {
		t.Error("Anthropic's API fits, which has no place for the room")
	}
	if handover.SGLang.Fits(handover.SGLang{}, pairOf(t, answer.APIChat, `{}`, 1<<40)) == nil {
		t.Error("more answers than can be numbered fit")
	}
}

// TestSGLangPorts: the port is the declared one, else the reported one, else the default; the host is that of the
// address.
func TestSGLangPorts(t *testing.T) {
	x := pairOf(t, answer.APIChat, `{}`, 1)
	x.Prefiller.URL = "https://[fd00::5]:30000/base"
	x.PrefillerPeer.BootstrapPort = 9001
	m, _ := handover.SGLang{}.Decode(x, nil)
	if got := setOf(m); !strings.HasPrefix(got, `{"bootstrap_host":"fd00::5","bootstrap_port":9001,`) {
		t.Error(got)
	}
	x.Prefiller.BootstrapPort, x.Prefiller.URL = 9002, "http://engine-0.prefill"
	m, _ = handover.SGLang{}.Prefill(x)
	if got := setOf(m); !strings.HasPrefix(got, `{"bootstrap_host":"engine-0.prefill","bootstrap_port":9002,`) {
		t.Error(got)
	}
}

// TestSGLangRanks: the decoder is told the prefiller's rank, by name and by the room, and a client cannot name one.
func TestSGLangRanks(t *testing.T) {
	own := `{"routed_dp_rank":7,"data_parallel_rank":6,"disagg_prefill_dp_rank":5,"bootstrap_room":4,"bootstrap_host":"evil","bootstrap_pair_key":"k"}`
	x := pairOf(t, answer.APIChat, own, 1)
	for _, m := range []func() (handover.Message, error){
		func() (handover.Message, error) { return handover.SGLang{}.Prefill(x) },
		func() (handover.Message, error) { return handover.SGLang{}.Decode(x, nil) },
	} {
		got, _ := m()
		want := `{"bootstrap_host":"10.0.0.5","bootstrap_port":8998,"bootstrap_room":4611686018427387904,"bootstrap_pair_key":null,"disagg_prefill_dp_rank":null}`
		if setOf(got) != want {
			t.Error(setOf(got))
		}
	}
	x.Prefiller.Part, x.PrefillerPeer.Ranks = fleet.Part{Kind: fleet.Rank, Index: 3}, 8
	x.Decoder.Part = fleet.Part{Kind: fleet.Rank, Index: 1}
	p, _ := handover.SGLang{}.Prefill(x)
	d, _ := handover.SGLang{}.Decode(x, nil)
	const room = `"bootstrap_room":4611686018427387907` // the rank is 3 of 8
	if got := setOf(p); !strings.Contains(got, room) || !strings.Contains(got, `"disagg_prefill_dp_rank":null`) ||
		strings.Contains(got, "routed") {
		t.Error(got)
	}
	if got := setOf(d); !strings.Contains(got, room) || !strings.Contains(got, `"disagg_prefill_dp_rank":3`) ||
		strings.Contains(got, "routed") {
		t.Error(got)
	}
	withheld := handover.Message{Set: handover.Withhold(x.Field)}
	if got := setOf(withheld); got !=
		`{"bootstrap_host":null,"bootstrap_room":null,"bootstrap_pair_key":null,"disagg_prefill_dp_rank":null,"routed_dp_rank":null,"data_parallel_rank":null}` {
		t.Error(got)
	}
}

// TestSGLangRooms: rooms fit a signed integer, are distinct, equal on both legs, and lead to the rank.
func TestSGLangRooms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, ranks := rapid.IntRange(1, 40).Draw(t, "n"), rapid.IntRange(1, 64).Draw(t, "ranks")
		rank := rapid.IntRange(0, ranks-1).Draw(t, "rank")
		x := &handover.Request{
			API: answer.APIChat, Answers: n, Random: rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{
				0, math.MaxUint64, 1 << 63,
			})).Draw(t, "number"), Field: func(string) []byte { return nil },
			Prefiller:     fleet.Endpoint{URL: "http://p:1", Part: fleet.Part{Kind: fleet.Rank, Index: rank}},
			PrefillerPeer: fleet.Peer{Ranks: ranks}, Decoder: fleet.Endpoint{URL: "http://d:1"},
		}
		p, _ := handover.SGLang{}.Prefill(x)
		d, _ := handover.SGLang{}.Decode(x, nil)
		seen := map[int64]bool{}
		var rooms []int64
		for i, m := range []handover.Message{p, d} {
			raw := m.Set[2].JSON
			if n == 1 {
				raw = []byte("[" + string(raw) + "]")
			}
			var got []int64
			if err := json.Unmarshal(raw, &got); err != nil || len(got) != n {
				t.Fatalf("%s: %v", raw, err)
			}
			if i == 1 && !cmp.Equal(rooms, got) {
				t.Fatalf("%v and %v", rooms, got)
			}
			rooms = got
		}
		for _, r := range rooms {
			if r < 0 || seen[r] || int(r%int64(ranks)) != rank {
				t.Fatalf("rooms %v for rank %d of %d", rooms, rank, ranks)
			}
			seen[r] = true
		}
	})
}

// TestSGLangReplies: one token, whole or streamed, and invalid replies.
func TestSGLangReplies(t *testing.T) {
	x := pairOf(t, answer.APIChat, `{}`, 1)
	const whole = `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"length"}],"usage":{"prompt_tokens":40,"completion_tokens":1,"total_tokens":41,"prompt_tokens_details":{"cached_tokens":32}}}`
	h, err := handover.SGLang{}.Reply(x, []byte(whole))
	if err != nil || !h.Known || h.Usage.PromptTokens != 40 || h.Usage.CachedTokens != 32 || !h.Honest {
		t.Errorf("%+v, %v", h, err)
	}
	const stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n"
	if h, err = (handover.SGLang{}).Reply(x, []byte(stream)); err != nil || h.Known || !h.Honest {
		t.Errorf("%+v, %v", h, err)
	}
	for _, bad := range []string{
		"", "data: {\"choices\":[]}\n\n",
		"data: {\"error\":{\"message\":\"no room\",\"code\":500}}\n\ndata: [DONE]\n\n",
		`{"choices":[{"index":0,"finish_reason":"abort"}]}`,
		`{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"gone"}}}`,
	} {
		if _, err := (handover.SGLang{}).Reply(x, []byte(bad)); err == nil {
			t.Errorf("%q was taken for a hand-over", bad)
		}
	}
	if _, err := (handover.SGLang{}).Reply(x,
		[]byte(`{"choices":[{"message":{"content":"\"finish_reason\":\"abort\""}}]}`)); err != nil {
		t.Errorf("an answer that quotes an abort: %v", err)
	}
}

// TestSGLangLogprobs: the prefill server's lists of the prompt's tokens come before the decode server's.
func TestSGLangLogprobs(t *testing.T) {
	for _, c := range []struct {
		name, api, reply, answer, want string
		event                          int
	}{
		{
			name: "generate", api: answer.APIGenerate,
			reply:  `{"text":"a","meta_info":{"id":"1","input_token_logprobs":[[null,5,null],[-0.5,6,null]],"output_token_logprobs":[[-1,9,null]]}}`,
			answer: `{"text":"a b","meta_info":{"id":"1","input_token_logprobs":[],"output_token_logprobs":[[-1,9,null],[-2,8,null]]},"x":1}`,
			want:   `{"text":"a b","meta_info":{"id":"1","input_token_logprobs":[[null,5,null],[-0.5,6,null]],"output_token_logprobs":[[-1,9,null],[-2,8,null]]},"x":1}`,
		},
		{
			name: "generate, the decoder has some of its own", api: answer.APIGenerate,
			reply:  `{"meta_info":{"input_token_logprobs":[[null,5,null]]}}`,
			answer: `{"meta_info":{"input_token_logprobs":[ [-0.5,6,null] ]}}`,
			want:   `{"meta_info":{"input_token_logprobs":[[null,5,null],[-0.5,6,null]]}}`,
		},
		{
			name: "generate, a list", api: answer.APIGenerate,
			reply:  `[{"meta_info":{"input_token_logprobs":[1]}},{"meta_info":{"input_token_logprobs":[2]}}]`,
			answer: `[{"meta_info":{"input_token_logprobs":[]}},{"meta_info":{"input_token_logprobs":null}}]`,
			want:   `[{"meta_info":{"input_token_logprobs":[1]}},{"meta_info":{"input_token_logprobs":[2]}}]`,
		},
		{
			name: "generate, a stream", api: answer.APIGenerate, event: 3,
			reply: "data: {\"index\":1,\"meta_info\":{\"input_token_logprobs\":[7]}}\n\n" +
				"data: {\"index\":0,\"meta_info\":{\"input_token_logprobs\":[6]}}\n\ndata: [DONE]\n\n",
			answer: `{"index":0,"meta_info":{"input_token_logprobs":[]}}`,
			want:   `{"index":0,"meta_info":{"input_token_logprobs":[6]}}`,
		},
		{
			name: "completions", api: answer.APICompletions,
			reply:  `{"choices":[{"index":0,"text":"hi a","logprobs":{"tokens":["h","i"," a"],"token_logprobs":[null,-1,-2],"top_logprobs":[null,{"i":-1},{" a":-2}],"text_offset":[-1,-1,-1]}}]}`,
			answer: `{"choices":[{"index":0,"text":"hi a b","logprobs":{"tokens":[" a"," b"],"token_logprobs":[-2,-3],"top_logprobs":[{" a":-2},{" b":-3}],"text_offset":[-1,-1]}}]}`,
			want:   `{"choices":[{"index":0,"text":"hi a b","logprobs":{"tokens":["h","i"," a"," b"],"token_logprobs":[null,-1,-2,-3],"top_logprobs":[null,{"i":-1},{" a":-2},{" b":-3}],"text_offset":[-1,-1,-1,-1]}}]}`,
		},
		{
			name: "completions, a later event", api: answer.APICompletions, event: 1,
			reply:  `{"choices":[{"index":0,"logprobs":{"tokens":["h"," a"],"token_logprobs":[null,-2]}}]}`,
			answer: `{"choices":[{"index":0,"logprobs":{"tokens":[" b"],"token_logprobs":[-3]}}]}`,
			want:   `{"choices":[{"index":0,"logprobs":{"tokens":[" b"],"token_logprobs":[-3]}}]}`,
		},
		{
			name: "chat", api: answer.APIChat,
			reply:  `{"choices":[{"index":0,"meta_info":{"input_token_logprobs":[1]},"logprobs":{"content":[{"token":"a"}]}}]}`,
			answer: `{"choices":[{"index":0,"meta_info":{"input_token_logprobs":[]},"logprobs":{"content":[{"token":"a"},{"token":"b"}]}}]}`,
			want:   `{"choices":[{"index":0,"meta_info":{"input_token_logprobs":[1]},"logprobs":{"content":[{"token":"a"},{"token":"b"}]}}]}`,
		},
		{
			name: "nothing to add", api: answer.APIGenerate, reply: `{"meta_info":{}}`,
			answer: `{"meta_info":{"input_token_logprobs":[]}}`, want: `{"meta_info":{"input_token_logprobs":[]}}`,
		},
		{
			name: "no JSON", api: answer.APIGenerate, reply: `{"meta_info":{"input_token_logprobs":[1]}}`,
			answer: `[DONE]`, want: `[DONE]`,
		},
	} {
		x := pairOf(t, c.api, `{}`, 1)
		if got := string(handover.SGLang{}.Merge(x, []byte(c.reply), []byte(c.answer), c.event)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
	for body, want := range map[string]bool{
		`{"return_logprob":true}`: true, `{"return_logprob":false}`: false, `{}`: false,
		`{"return_logprob":[true,false]}`: true,
	} {
		if got := (handover.SGLang{}).Merges(pairOf(t, answer.APIGenerate, body, 1)); got != want {
			t.Errorf("%s: %t", body, got)
		}
	}
}

// FuzzSGLangReply: for any replies, nothing panics, and valid answers stay valid.
func FuzzSGLangReply(f *testing.F) {
	f.Add([]byte(`{"meta_info":{"input_token_logprobs":[[null,5,null]]}}`),
		[]byte(`{"meta_info":{"input_token_logprobs":[]}}`), 0)
	f.Add([]byte("data: {\"index\":0,\"meta_info\":{\"input_token_logprobs\":[6]}}\n\ndata: [DONE]\n\n"),
		[]byte(`[{"index":0,"meta_info":{"input_token_logprobs":null}}]`), 0)
	f.Add([]byte(`{"choices":[{"logprobs":{"tokens":["h","i"," a"]}}]}`),
		[]byte(`{"choices":[{"logprobs":{"tokens":[" a"]}}]}`), 1)
	f.Add([]byte(`{"choices":[{"finish_reason":"abort"}]}`), []byte(`{}`), 2)
	apis := []string{answer.APIGenerate, answer.APICompletions, answer.APIChat, answer.APIResponses}
	f.Fuzz(func(t *testing.T, reply, answer []byte, api int) {
		x := handoffOf(apis[uint(api)%uint(len(apis))], nil)
		h, err := handover.SGLang{}.Reply(x, reply)
		if err == nil && len(strings.TrimSpace(string(reply))) == 0 || h.Params != nil {
			t.Fatalf("%+v of %q", h, reply)
		}
		kept := string(answer)
		out := handover.SGLang{}.Merge(x, reply, answer, 0)
		if string(answer) != kept {
			t.Fatalf("the answer was changed in place: %q, was %q", answer, kept)
		}
		if json.Valid(reply) && json.Valid(answer) && !json.Valid(out) {
			t.Fatalf("%q of %q and %q", out, reply, answer)
		}
	})
}

// TestSGLangAsCaptured: the combined answers of two real servers equal that of one server.
func TestSGLangAsCaptured(t *testing.T) {
	b, err := os.ReadFile("testdata/sglang_pd.json")
	if err != nil {
		t.Fatal(err)
	}
	var legs struct {
		Completions, Generate struct{ P, D, Alone string }
	}
	if err := json.Unmarshal(b, &legs); err != nil {
		t.Fatal(err)
	}
	x := pairOf(t, answer.APICompletions, `{"echo":true,"logprobs":1}`, 1)
	h, err := handover.SGLang{}.Reply(x, []byte(legs.Completions.P))
	if err != nil || h.Usage.PromptTokens != 5 || !h.Known || h.Reply == nil {
		t.Errorf("%+v, %v", h, err)
	}
	var completion struct {
		Choices []struct {
			Logprobs json.RawMessage
			Text     string
		}
	}
	if err := json.Unmarshal(handover.SGLang{}.Merge(x, h.Reply, []byte(legs.Completions.D), 0),
		&completion); err != nil || len(completion.Choices) != 1 ||
		completion.Choices[0].Text != "hello worldMfrozennegative" {
		t.Fatalf("%+v, %v", completion, err)
	}
	same(t, completion.Choices[0].Logprobs, legs.Completions.Alone)

	x = pairOf(t, answer.APIGenerate, `{"return_logprob":true}`, 1)
	if h, err = (handover.SGLang{}).Reply(x, []byte(legs.Generate.P)); err != nil || h.Usage.PromptTokens != 8 {
		t.Errorf("%+v, %v", h, err)
	}
	var generated struct {
		Meta struct {
			Input json.RawMessage `json:"input_token_logprobs"`
		} `json:"meta_info"`
	}
	if err := json.Unmarshal(handover.SGLang{}.Merge(x, h.Reply, []byte(legs.Generate.D), 0), &generated); err != nil {
		t.Fatal(err)
	}
	same(t, generated.Meta.Input, legs.Generate.Alone)
}

func same(t *testing.T, got json.RawMessage, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("-alone +merged\n%s", diff)
	}
}

// TestSGLangSeveralAnswers: a version known never to answer is not asked.
func TestSGLangSeveralAnswers(t *testing.T) {
	x := pairOf(t, answer.APIChat, `{}`, 2)
	for version, ok := range map[string]bool{"0.5.23": false, "0.5.23.post1": false, "0.6.0": true, "": true} {
		x.DecoderPeer.Version = version
		if _, err := (handover.SGLang{}).Prefill(x); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
}
