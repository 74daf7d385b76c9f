package answer

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
)

func known(prompt, cached, output int) fleet.Usage {
	return fleet.Usage{PromptTokens: prompt, CachedTokens: cached, OutputTokens: output, CachedKnown: true}
}

func noCache(prompt, output int) fleet.Usage {
	return fleet.Usage{PromptTokens: prompt, OutputTokens: output}
}

var none fleet.Usage

// bodies are non-streamed answers. An empty want means that nothing may be found.
var bodies = []struct {
	name, api, body string
	want            fleet.Usage
}{
	{"vllm chat", APIChat, `{"id":"chatcmpl-r1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":640,"total_tokens":648,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":608,"created_cache_tokens":0,"multimodal_tokens":null}},"prompt_logprobs":null,"kv_transfer_params":null}`, known(640, 608, 8)},
	{"vllm chat, details off", APIChat, `{"choices":[],"usage":{"prompt_tokens":640,"total_tokens":648,"completion_tokens":8,"prompt_tokens_details":null}}`, noCache(640, 8)},
	{"details without cached", APIChat, `{"usage":{"prompt_tokens":640,"completion_tokens":8,"prompt_tokens_details":{"image_tokens":3,"cached_tokens":null}}}`, noCache(640, 8)},
	{"sglang, zero is known", APIChat, `{"usage":{"prompt_tokens":10,"total_tokens":12,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}},"metadata":{"weight_version":"default"}}`, known(10, 0, 2)},
	{"smg mock", APIChat, `{"usage":{"prompt_tokens":10,"completion_tokens":2,"cached_tokens":4}}`, known(10, 4, 2)},
	{"embeddings", "embeddings", `{"object":"list","data":[{"embedding":[0.1,-2e-3]}],"model":"m","usage":{"prompt_tokens":5,"total_tokens":5}}`, noCache(5, 0)},
	{"responses", APIResponses, `{"id":"resp_1","object":"response","output":[{"content":[{"text":"\"usage\":{\"input_tokens\":1}"}]}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64,"cache_write_tokens":0},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":107},"user":null}`, known(100, 64, 7)},
	{"responses, tools after usage", APIResponses, `{"usage":{"input_tokens":100,"output_tokens":7},"tools":[{"parameters":{"usage":{"input_tokens":1,"output_tokens":1}}}],"metadata":{"usage":"x"}}`, noCache(100, 7)},
	{"anthropic", APIMessages, `{"id":"msg_1","type":"message","content":[{"type":"tool_use","input":{"usage":{"input_tokens":1,"output_tokens":1}}}],"usage":{"input_tokens":8,"cache_creation_input_tokens":2,"cache_read_input_tokens":90,"output_tokens":5}}`, known(100, 90, 5)},
	{"anthropic without cache", APIMessages, `{"usage":{"input_tokens":8,"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"output_tokens":5}}`, noCache(8, 5)},
	{
		"anthropic, tool's usage only", APIMessages,
		`{"content":[{"type":"tool_use","input":{"usage":{"input_tokens":1,"output_tokens":1}}}]}`, none,
	},
	{"sglang generate", APIGenerate, `{"text":"x","output_ids":[1,2],"meta_info":{"id":"a","finish_reason":{"type":"length","length":2},"prompt_tokens":192,"completion_tokens":2,"cached_tokens":128,"cached_tokens_details":{"device":128,"host":0},"dp_rank":null,"e2e_latency":0.1}}`, known(192, 128, 2)},
	{"sglang generate, batch", APIGenerate, `[{"text":"x","meta_info":{"prompt_tokens":10,"completion_tokens":2,"cached_tokens":4}}, {"text":"y","meta_info":{"prompt_tokens":20,"completion_tokens":3,"cached_tokens":0}}]`, known(30, 4, 5)},
	{"llama.cpp chat", APIChat, `{"choices":[],"usage":{"completion_tokens":4,"prompt_tokens":1888,"total_tokens":1892},"id":"x","timings":{"cache_n":1887,"prompt_n":1,"prompt_ms":10.5,"predicted_n":4}}`, known(1888, 1887, 4)},
	{
		"llama.cpp timings only", APIChat,
		`{"choices":[{"delta":{}}],"timings":{"cache_n":10,"prompt_n":5,"predicted_n":4}}`, known(15, 10, 4),
	},
	{"llama.cpp completion", APIOther, `{"index":0,"content":"x","id_slot":0,"stop":true,"tokens_predicted":4,"tokens_evaluated":1888,"tokens_cached":1891,"timings":{"prompt_n":1,"prompt_ms":1.5,"predicted_n":4}}`, known(1888, 1887, 4)},
	{"ollama", APIOllamaChat, `{"model":"m","message":{"role":"assistant","tool_calls":[{"function":{"arguments":{"eval_count":1}}}]},"done":true,"total_duration":5,"prompt_eval_count":26,"prompt_eval_cached_count":20,"eval_count":9}`, known(26, 20, 9)},
	{"ollama, all cached, old", APIOllamaGenerate, `{"done":true,"context":[1,2,3],"eval_count":9}`, noCache(0, 9)},
	{"count_tokens", APICountTokens, `{"input_tokens":12}`, none},
	{
		"rerank", APIOther,
		`{"id":"r","results":[{"index":0,"relevance_score":0.9}],"usage":{"total_tokens":15}}`, noCache(15, 0),
	},
	{"the total alone, chat", APIChat, `{"choices":[],"usage":{"total_tokens":15}}`, none},
	{
		"ollama embed", APIEmbeddings,
		`{"model":"m","embeddings":[[0.1]],"total_duration":5,"prompt_eval_count":8}`, noCache(8, 0),
	},
	{
		"other: anthropic", APIOther, `{"usage":{"input_tokens":8,"cache_read_input_tokens":90,"output_tokens":5}}`,
		known(98, 90, 5),
	},
	{
		"other: generate", APIOther, `{"meta_info":{"prompt_tokens":192,"completion_tokens":2,"cached_tokens":128}}`,
		known(192, 128, 2),
	},
	{
		"text speaks of usage", APIChat,
		`{"choices":[{"message":{"content":"say \"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6}"}}]}`, none,
	},
	{
		"backslashes before a quote", APIChat,
		`{"a":"\\","b":"\\\"usage\":{","usage":{"prompt_tokens":3,"completion_tokens":1},"c":"\\\\"}`, noCache(3, 1),
	},
	{
		"spaces", APIChat, "{\n  \"usage\" : {\n    \"prompt_tokens\" : 3 ,\n \"completion_tokens\" : 1.0 }\n}\n\n",
		noCache(3, 1),
	},
	{
		"more cached than there is", APIChat,
		`{"usage":{"prompt_tokens":3,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":9}}}`,
		known(3, 3, 1),
	},
	{"absurd", APIChat, `{"usage":{"prompt_tokens":99999999999999999999,"completion_tokens":-4,"x":1}}`, none},
	{
		"more than a context has", APIChat, `{"usage":{"prompt_tokens":134217729,"completion_tokens":1}}`, none,
	},
	{
		"a longer answer than there is", APIMessages, `{"usage":{"input_tokens":1,"output_tokens":1000000000}}`, none,
	},
	{
		"their sum is more", APIMessages,
		`{"usage":{"input_tokens":9,"cache_read_input_tokens":134217728,"output_tokens":1}}`, none,
	},
	{"null", APIChat, `{"choices":[],"usage":null}`, none},
	{"cut at its end", APIChat, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1`, none},
	{"empty", APIChat, ``, none},
	{"an error", APIChat, `{"error":{"message":"no","usage":{"prompt_tokens":1}}}`, none},
}

func TestParseUsage(t *testing.T) {
	for _, test := range bodies {
		t.Run(test.name, func(t *testing.T) {
			got, ok := ParseUsage(test.api, []byte(test.body))
			if got != test.want || ok != (test.want != none) {
				t.Errorf("got %+v %v, want %+v", got, ok, test.want)
			}
			// Wherever the beginning is cut off, the prompt is equal or unknown.
			for i := range test.body {
				if got, ok := ParseUsage(test.api, []byte(test.body[i:])); ok && got.PromptTokens != 0 &&
					got.PromptTokens != test.want.PromptTokens {
					t.Fatalf("cut to %q: got %+v, want %+v", test.body[i:], got, test.want)
				}
			}
			// The scanner finds the same in the body.
			if strings.Contains(test.body, "\n") {
				return
			}
			s := Scanner{API: test.api}
			s.Write([]byte(test.body))
			if got, ok := s.Close(); got != test.want || ok != (test.want != none) {
				t.Errorf("scanner: got %+v %v, want %+v", got, ok, test.want)
			}
		})
	}
}

func TestLongBody(t *testing.T) {
	body := `{"id":"x","choices":[{"message":{"content":"` +
		strings.Repeat(`\"usage\":{\"prompt_tokens\":1} {[ \\`, 5000) +
		`"}}],"usage":{"prompt_tokens":640,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":608}}}`
	for _, n := range []int{len(body), 50000, 8192, 4097, 200} {
		if got, ok := ParseUsage(APIChat, []byte(body[len(body)-n:])); !ok || got != known(640, 608, 8) {
			t.Errorf("last %d bytes: got %+v %v", n, got, ok)
		}
	}
	late := body[:len(body)-1] + `,"prompt_token_ids":[` + strings.Repeat("1,", TailBytes) + `1]}`
	if got, ok := ParseUsage(APIChat, []byte(late)); ok {
		t.Errorf("usage beyond the tail cannot be found, got %+v", got)
	}
}

// Random documents around random figures: the whole gives the figures, any cut gives them or nothing.
func TestUsageProperty(t *testing.T) {
	nasty := rapid.SampledFrom([]string{
		`"usage":{"prompt_tokens":1,"completion_tokens":2}`, `\`, `\\`, `"`, `{`, `}`, `[`, `]`, `:`, `,`, "\n", "é",
		`usage`, `"},"usage":{"prompt_tokens":7}}`, "data: [DONE]", "data: {",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(nasty, 0, 30).Draw(t, "text"), "")
		p, c, o := rapid.IntRange(0, 1e6).Draw(t, "p"), rapid.IntRange(0, 1e6).Draw(t, "c"),
			rapid.IntRange(0, 1e6).Draw(t, "o")
		doc := []any{
			map[string]any{
				"id": text, "choices": []any{map[string]any{"text": text, "usage": map[string]int{"prompt_tokens": 1}}},
			},
			map[string]any{"prompt_tokens": p, "completion_tokens": o, "prompt_tokens_details": map[string]any{
				"cached_tokens": c, text: text,
			}},
		}
		a, _ := json.Marshal(doc[0])
		u, _ := json.Marshal(doc[1])
		z, _ := json.Marshal(text)
		body := string(a[:len(a)-1]) + `,"usage":` + string(u) + `,"z":` + string(z) +
			`,"y":[{"usage":{"prompt_tokens":2}}]}`
		want := known(p, min(c, p), o)
		if got, ok := ParseUsage(APIChat, []byte(body)); !ok || got != want {
			t.Fatalf("%s\ngot %+v %v, want %+v", body, got, ok, want)
		}
		cut := rapid.IntRange(0, len(body)).Draw(t, "cut")
		if got, ok := ParseUsage(APIChat, []byte(body[cut:])); ok && got != want {
			t.Fatalf("%s\ngot %+v, want %+v or none", body[cut:], got, want)
		}
	})
}

func TestResponseID(t *testing.T) {
	for _, test := range []struct{ head, want string }{
		{`{"id":"resp_12ab","object":"response"`, "resp_12ab"},
		{` { "object" : "response" , "output":[{"id":"msg_1"}], "id" : "resp_1" }`, "resp_1"},
		{`{"output":[{"id":"msg_1"}`, ""},
		{`{"id":"resp_cut`, ""},
		{`{"id":7}`, ""},
		{`{"id":"a\u0062"}`, ""},
		{`{"id":"` + strings.Repeat("x", MaxIDBytes+1) + `"}`, ""},
		{`[{"id":"x"}]`, ""},
		{``, ""},
	} {
		if got := ResponseID([]byte(test.head)); got != test.want {
			t.Errorf("%.60s: got %q, want %q", test.head, got, test.want)
		}
	}
}

// An answer without top-level usage gives nothing, and a cut-off beginning never changes what is found.
func FuzzUsage(f *testing.F) {
	apis := []string{
		APIChat, APICompletions, "embeddings", APIResponses, APIMessages, APICountTokens, APIGenerate,
		APIOllamaChat, APIOther,
	}
	for i, b := range bodies {
		f.Add(uint8(i), b.body, uint16(i))
	}
	f.Fuzz(func(t *testing.T, which uint8, body string, cut uint16) {
		api := apis[int(which)%len(apis)]
		u, ok := ParseUsage(api, []byte(body))
		if u.PromptTokens < 0 || u.OutputTokens < 0 || u.CachedTokens < 0 || u.CachedTokens > u.PromptTokens ||
			!ok && u != none {
			t.Fatalf("%+v %v", u, ok)
		}
		ResponseID([]byte(body))
		var top map[string]json.RawMessage
		if len(body) > TailBytes || json.Unmarshal([]byte(body), &top) != nil {
			return
		}
		at := func(names ...string) bool {
			for _, n := range names {
				if _, has := top[n]; has {
					return true
				}
			}
			return strings.Contains(body, `\u`) // a name may be written with escapes; only this direction matters
		}
		if ok && !at("usage", "timings", "meta_info", "tokens_evaluated", "tokens_predicted", "prompt_eval_count",
			"prompt_eval_cached_count", "eval_count") {
			t.Fatalf("%s: found %+v", api, u)
		}
		if api == APIGenerate || api == APIMessages || api == APIResponses {
			tail := body[min(int(cut), len(body)):]
			if v, found := ParseUsage(api, []byte(tail)); found && v.PromptTokens != u.PromptTokens {
				t.Fatalf("%s: whole %+v, cut to %q %+v", api, u, tail, v)
			}
		}
	})
}

func BenchmarkParseUsage(b *testing.B) {
	for _, test := range bodies[:1] {
		b.Run(test.name, func(b *testing.B) {
			body := []byte(test.body)
			b.ReportAllocs()
			for b.Loop() {
				ParseUsage(test.api, body)
			}
		})
	}
}
