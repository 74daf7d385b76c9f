package answer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

type seen struct {
	usage              fleet.Usage
	ok                 bool
	data, done, failed bool
	id                 string
}

func scan(api string, pieces ...string) seen {
	s := Scanner{API: api}
	for _, p := range pieces {
		b := []byte(p)
		s.Write(b)
		clear(b) // nothing may be kept
	}
	u, ok := s.Close()
	return seen{u, ok, s.Data(), s.Done(), s.Failed(), s.ResponseID()}
}

func sse(events ...string) string {
	return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n"
}

var streams = []struct {
	name, api, stream string
	want              seen
}{
	{
		"vllm chat", APIChat, sse(`{"id":"c","choices":[{"delta":{"role":"assistant","content":""}}]}`,
			`{"choices":[{"delta":{"content":"\"usage\":{\"prompt_tokens\":9}"}}],"usage":null}`,
			`{"choices":[],"usage":{"prompt_tokens":640,"total_tokens":648,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":608}}}`, `[DONE]`),
		seen{usage: known(640, 608, 8), ok: true, data: true, done: true},
	},
	{
		"continuous usage", APIChat, sse(`{"choices":[{}],"usage":{"prompt_tokens":640,"completion_tokens":1}}`,
			`{"choices":[{}],"usage":{"prompt_tokens":640,"completion_tokens":2}}`,
			`{"choices":[],"usage":{"prompt_tokens":640,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":608}}}`, `[DONE]`),
		seen{usage: known(640, 608, 3), ok: true, data: true, done: true},
	},
	{
		"crlf, no last line end", APIChat, "data: {\"choices\":[]}\r\n\r\n" +
			"data:{\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\r\n\r\ndata: [DONE]",
		seen{usage: noCache(3, 1), ok: true, data: true, done: true},
	},
	{
		"cr, and an event line", APIResponses, "event: response.created\rdata: {\"response\":{\"id\":\"resp_7\"}}\r\r" +
			"event: response.completed\rdata: {\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\r\r",
		seen{usage: noCache(3, 1), ok: true, data: true, done: true, id: "resp_7"},
	},
	{
		"no usage asked for", APIChat, sse(`{"choices":[{"delta":{"content":"x"}}]}`, `[DONE]`),
		seen{data: true, done: true},
	},
	{
		"vllm dies", APIChat, sse(`{"choices":[{}]}`,
			`{"error": {"message":"EngineCore","type":"InternalServerError","code":500}}`, `[DONE]`),
		seen{data: true, done: true, failed: true},
	},
	{"flat error", APIChat, sse(`{"object":"error","message":"x","code":500}`), seen{failed: true}},
	{"error null is none", APIChat, sse(`{"error":null,"choices":[{"delta":{"content":"x"}}]}`), seen{data: true}},
	{"sglang is killed", APIChat, sse(`{"choices":[{}]}`), seen{data: true}},
	{
		"llama.cpp", APIChat, ": ping\n\n" +
			sse(`{"choices":[{}]}`, `{"choices":[],"timings":{"cache_n":1887,"prompt_n":1,"predicted_n":4}}`, `[DONE]`),
		seen{usage: known(1888, 1887, 4), ok: true, data: true, done: true},
	},
	{"only comments", APIChat, ": ping\n\n:\n\n: {\"usage\":{\"prompt_tokens\":1}}\nretry: 5\nid: 7\n\n", seen{}},
	{
		"responses", APIResponses, "event: response.created\ndata: {\"response\":{\"id\":\"resp_7\",\"usage\":null}," +
			"\"sequence_number\":0,\"type\":\"response.created\"}\n\nevent: response.in_progress\ndata: " +
			"{\"response\":{\"id\":\"resp_7\"}}\n\nevent: response.output_text.delta\ndata: {\"delta\":\"x\"}\n\n" +
			"event: response.completed\ndata: {\"response\":{\"id\":\"resp_7\"," +
			"\"output\":[],\"usage\":{\"input_tokens\":100,\"input_tokens_details\":{\"cached_tokens\":64}," +
			"\"output_tokens\":7}},\"sequence_number\":9,\"type\":\"response.completed\"}\n\n",
		seen{usage: known(100, 64, 7), ok: true, data: true, done: true, id: "resp_7"},
	},
	{
		"responses, no event lines, cut parent", APIResponses,
		sse(`{"type":"response.created","sequence_number":0,"response":{"id":"resp_8"}}`,
			`{"type":"response.completed","response":{"output":["`+strings.Repeat("x", 2*TailBytes)+
				`"],"usage":{"input_tokens":100,"output_tokens":7},"user":null}}`),
		seen{usage: noCache(100, 7), ok: true, data: true, done: true, id: "resp_8"},
	},
	{
		"responses, announced only", APIResponses, sse(`{"type":"response.created","response":{"id":"resp_9"}}`),
		seen{id: "resp_9"},
	},
	{
		"responses, failed", APIResponses,
		sse(`{"type":"response.failed","response":{"usage":{"input_tokens":5,"output_tokens":0}}}`),
		seen{usage: noCache(5, 0), ok: true, done: true, failed: true},
	},
	{"responses, cut before the last event's data", APIResponses, "event: response.completed\n", seen{}},
	{
		"responses, cut in the last event", APIResponses,
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[\"x",
		seen{data: true},
	},
	{
		"responses, tool's usage", APIResponses,
		sse(`{"type":"response.output_item.done","item":{"usage":{"input_tokens":5,"output_tokens":1}}}`),
		seen{data: true},
	},
	{
		"anthropic", APIMessages, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"," +
			"\"usage\":{\"input_tokens\":8,\"cache_creation_input_tokens\":2,\"cache_read_input_tokens\":90," +
			"\"output_tokens\":1}}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"x\"}}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}," +
			"\"usage\":{\"input_tokens\":0,\"output_tokens\":15}}\n\nevent: message_stop\n" +
			"data: {\"type\":\"message_stop\"}\n\n", seen{usage: known(100, 90, 15), ok: true, data: true, done: true},
	},
	{
		"anthropic, before the first token", APIMessages, "event: message_start\ndata: {\"type\":\"message_start\"," +
			"\"message\":{\"usage\":{\"input_tokens\":8,\"output_tokens\":0}}}\n\nevent: ping\ndata: {}\n\n",
		seen{usage: noCache(8, 0), ok: true},
	},
	{
		"anthropic error", APIMessages,
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
		seen{failed: true},
	},
	{
		"sglang generate",
		APIGenerate, sse(`{"text":"a","meta_info":{"prompt_tokens":192,"completion_tokens":1,"cached_tokens":128}}`,
			`{"text":"a \"meta_info\":{}","meta_info":{"prompt_tokens":192,"completion_tokens":2,"cached_tokens":128}}`,
			`[DONE]`),
		seen{usage: known(192, 128, 2), ok: true, data: true, done: true},
	},
	{
		"ollama", APIOllamaChat, `{"message":{"content":"a"},"done":false}` +
			"\n" + `{"message":{"tool_calls":[{"function":{"arguments":{"done":true}}}]},"done":false}` + "\n" +
			`{"done":true,"prompt_eval_count":26,"eval_count":9}` + "\n",
		seen{usage: noCache(26, 9), ok: true, data: true, done: true},
	},
	{"ollama, cut", APIOllamaChat, `{"message":{"content":"\"done\":true"},"done":false}` + "\n", seen{data: true}},
	{
		"long event", APIChat, sse(`{"choices":[{"text":"`+strings.Repeat(`\"usage\":{ `, 3000)+
			`"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, `[DONE]`),
		seen{usage: noCache(3, 1), ok: true, data: true, done: true},
	},
}

func TestScanner(t *testing.T) {
	for _, test := range streams {
		t.Run(test.name, func(t *testing.T) {
			if got := scan(test.api, test.stream); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			for _, n := range []int{1, 2, 7, 100, 5000} {
				var pieces []string
				for rest := test.stream; rest != ""; rest = rest[min(n, len(rest)):] {
					pieces = append(pieces, rest[:min(n, len(rest))])
				}
				if got := scan(test.api, pieces...); got != test.want {
					t.Errorf("in pieces of %d: got %+v, want %+v", n, got, test.want)
				}
			}
			if u, _ := ParseUsage(test.api, []byte(test.stream)); u != test.want.usage &&
				len(test.stream) <= TailBytes {
				t.Errorf("ParseUsage: got %+v, want %+v", u, test.want.usage)
			}
		})
	}
}

func TestScannerMemory(t *testing.T) {
	s := Scanner{API: APIChat}
	junk := []byte("data: " + strings.Repeat("x", 10000))
	for range 1000 {
		s.Write(junk)
		if cap(s.part) > 4*TailBytes || len(s.part) > 2*TailBytes {
			t.Fatalf("holds %d bytes, capacity %d", len(s.part), cap(s.part))
		}
	}
	s.Reset(APIGenerate)
	if u, ok := s.Close(); ok || s.Data() || s.API != APIGenerate {
		t.Errorf("after Reset: %+v", u)
	}
}

// TestErrorAnswer: a body, or its beginning, that is an error instead of an answer.
func TestErrorAnswer(t *testing.T) {
	for body, want := range map[string]struct {
		code int
		said string
		ok   bool
	}{
		`{"error":{"message":"died","type":"InternalServerError","code":500}}`:             {500, "died", true},
		" {\n \"object\" : \"error\", \"message\" : \"full\", \"code\" : 503 }":            {503, "full", true},
		`{"type":"error","error":{"type":"overloaded_error","message":"wait"}}`:            {503, "wait", true},
		`{"error":{"message":"late","type":"None","param":"None","code":"408"}}`:           {408, "late", true},
		`{"error":{"message":"odd","code": "408 or so"}}`:                                  {0, "odd", true},
		`{"error":{"message":"odd","code":"4080"}}`:                                        {0, "odd", true},
		`{"error":"model is gone"}`:                                                        {0, "", true},
		`{"error":{"message":"the beginning of a lo`:                                       {0, "", true},
		`{"error":null,"choices":[]}`:                                                      {},
		`{"id":"r","object":"response","status":"failed","error":{"code":"server_error"}}`: {},
		`{"choices":[{"message":{"content":"{\"error\":{}}"}}]}`:                           {},
		`[{"error":{}}]`: {}, `"error"`: {}, ``: {}, `{`: {}, `{"error`: {}, `{"error":`: {}, `<html>`: {},
	} {
		if code, said, ok := ErrorAnswer([]byte(body)); code != want.code || said != want.said || ok != want.ok {
			t.Errorf("%s: %d %q %t, want %+v", body, code, said, ok, want)
		}
	}
}

func FuzzScannerSplit(f *testing.F) {
	apis := []string{APIChat, APIResponses, APIMessages, APIGenerate, APIOllamaChat, APIOther, APICountTokens, ""}
	for i, s := range streams {
		f.Add(uint8(i), s.stream, uint16(3*i), uint16(i*i))
	}
	f.Add(uint8(4), strings.Repeat("{\"message\":{\"content\":\" ha\"},\"done\":false}\n", 31), uint16(700), uint16(99))
	f.Add(uint8(1), "event: response.created\ndata: {\"type\":\"response.created\"}\n\n: wait\n\n",
		uint16(60), uint16(3))
	f.Fuzz(func(t *testing.T, which uint8, stream string, a, b uint16) {
		api := apis[int(which)%len(apis)]
		i := int(a) % (len(stream) + 1)
		j := i + int(b)%(len(stream)-i+1)
		whole, split := scan(api, stream), scan(api, stream[:i], stream[i:j], stream[j:])
		if whole != split {
			t.Fatalf("%q: whole %+v, split at %d and %d %+v", stream, whole, i, j, split)
		}
		one, three := Scanner{API: api}, Scanner{API: api}
		one.Write([]byte(stream))
		for _, p := range []string{stream[:i], stream[i:j], stream[j:]} {
			three.Write([]byte(p))
		}
		if one.Announced() != three.Announced() || one.Repeats() != three.Repeats() {
			t.Fatalf("%q, split at %d and %d: announced %t and %t, repeats %t and %t", stream, i, j,
				one.Announced(), three.Announced(), one.Repeats(), three.Repeats())
		}
		if u := whole.usage; u.PromptTokens < 0 || u.OutputTokens < 0 || u.CachedTokens > u.PromptTokens {
			t.Fatalf("%+v", u)
		}
	})
}

func benchChunks() (content, withUsage, meta []byte) {
	content = []byte(sse(`{"id":"chatcmpl-0a1b2c3d4e5f","object":"chat.completion.chunk","created":1795201445,"model":"tiny","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}`))
	withUsage = []byte(sse(`{"id":"chatcmpl-0a1b2c3d4e5f","object":"chat.completion.chunk","created":1795201445,"model":"tiny","choices":[{"index":0,"delta":{"content":" word"}}],"usage":{"prompt_tokens":640,"total_tokens":648,"completion_tokens":8}}`))
	meta = []byte(sse(fmt.Sprintf(`{"text":%q,"output_ids":[1,2,3],"meta_info":{"id":"0a1b2c3d4e5f","finish_reason":null,"prompt_tokens":192,"weight_version":"default","completion_tokens":2,"cached_tokens":128,"cached_tokens_details":null,"dp_rank":null}}`, strings.Repeat("word ", 200))))
	return content, withUsage, meta
}

func TestScannerAllocatesNothing(t *testing.T) {
	content, withUsage, meta := benchChunks()
	for _, test := range []struct {
		api   string
		chunk []byte
	}{{APIChat, content}, {APIChat, withUsage}, {APIGenerate, meta}} {
		s := Scanner{API: test.api}
		s.Write(test.chunk)
		s.Write(test.chunk[:20])
		s.Write(test.chunk[20:])
		n := testing.AllocsPerRun(100, func() {
			s.Write(test.chunk)
			s.Write(test.chunk[:20])
			s.Write(test.chunk[20:])
		})
		if n != 0 {
			t.Errorf("%s: %v allocations a chunk", test.api, n)
		}
	}
}

func BenchmarkScanner(b *testing.B) {
	content, withUsage, meta := benchChunks()
	for _, test := range []struct {
		name, api string
		chunk     []byte
	}{
		{"content", APIChat, content},
		{"usage", APIChat, withUsage},
		{"meta_info", APIGenerate, meta},
		{"ollama", APIOllamaChat, []byte("{\"model\":\"m\",\"message\":{\"content\":\"x\"},\"done\":false}\n")},
	} {
		b.Run(test.name, func(b *testing.B) {
			s := Scanner{API: test.api}
			b.ReportAllocs()
			b.SetBytes(int64(len(test.chunk)))
			for b.Loop() {
				s.Write(test.chunk)
			}
		})
	}
}

// TestTokens: each event of an answer is a token, and a longer one is several; pings and the end are none.
func TestTokens(t *testing.T) {
	event := func(text string) string {
		return `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
	}
	for _, row := range []struct {
		name, api, stream string
		want              int
	}{
		{"nothing", APIChat, "", 0},
		{"one each", APIChat, strings.Repeat(event("word"), 20) + "data: [DONE]\n\n", 20},
		{"several in one", APIChat, event("word") + event(strings.Repeat("word", 10)), 2 + 9},
		{"pings", APIMessages, ": ping\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n", 0},
		{"lines", APIOllamaChat, strings.Repeat(`{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"x"},"done":false}`+"\n", 7), 7},
		{"short ones", APIOther, strings.Repeat("data: {\"a\":1}\n\n", 5), 5},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			s := Scanner{API: row.api}
			for rest := []byte(row.stream); len(rest) > 0; {
				n := min(size, len(rest))
				s.Write(rest[:n])
				rest = rest[n:]
			}
			if got := s.Tokens(); got != row.want {
				t.Errorf("%s, in pieces of %d: %d tokens, want %d", row.name, size, got, row.want)
			}
		}
	}
}
