package answer_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/fleet"
)

// TestFirstToken: the first token is text, reasoning or the call of a tool, in every API; never a ping, an
// announcement, a chunk with only the role, or progress. before shows only that the engine works (open), or not even
// that.
func TestFirstToken(t *testing.T) {
	role := `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":[]},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}` + "\n\n"
	delta := func(d string) string {
		return `data: {"id":"c","choices":[{"index":0,"delta":` + d +
			`,"logprobs":null,"finish_reason":null}]}` + "\n\n"
	}
	typed := func(kind, rest string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
	}
	line := func(l string) string { return l + "\n" }
	long := `,"prompt_token_ids":[` + strings.Repeat("12345,", 3000) + "1]"
	for _, tt := range []struct {
		name, api, before string
		open              bool
		token             string
	}{
		{"chat, text", answer.APIChat, role, true, delta(`{"content":"hi"}`)},
		{"chat, role with text", answer.APIChat, "", false, delta(`{"role":"assistant","content":"hi"}`)},
		{"chat, reasoning", answer.APIChat, role, true, delta(`{"reasoning_content":"hm"}`)},
		{"chat, reasoning of vLLM", answer.APIChat, role, true, delta(`{"reasoning":"hm"}`)},
		{
			"chat, tool call", answer.APIChat, role, true,
			delta(`{"content":null,"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":""}}]}`),
		},
		{"chat, refusal", answer.APIChat, role, true, delta(`{"refusal":"no"}`)},
		{
			"chat, two choices", answer.APIChat, role + strings.Replace(role, `"index":0`, `"index":1`, 1), true,
			delta(`{"content":"hi"}`),
		},
		{
			"chat, empty answer", answer.APIChat, role, true,
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n",
		},
		{
			"chat, role and token ids", answer.APIChat, strings.Replace(role, `,"prompt_token_ids":null`, long, 1),
			true, delta(`{"content":"hi"}`),
		},
		{
			"chat, usage in each chunk", answer.APIChat, strings.Replace(role, `,"prompt_token_ids":null`,
				`,"usage":{"prompt_tokens":9,"completion_tokens":0}`, 1), true, delta(`{"content":"hi"}`),
		},
		{
			"chat, Azure's filter", answer.APIChat,
			`data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}` + "\n\n", false,
			delta(`{"content":"hi"}`),
		},
		{"chat, llama.cpp's progress", answer.APIChat, `data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":900,"cache":0,"processed":512,"time_ms":80}}` + "\n\n", true, delta(`{"content":"hi"}`)},
		{
			"chat, comments", answer.APIChat, ": ping\n\n: OPENROUTER PROCESSING\n\nevent: ping\ndata: {}\n\n", false,
			delta(`{"content":"hi"}`),
		},
		{
			"completions", answer.APICompletions,
			`data: {"choices":[{"index":0,"text":"","logprobs":null,"finish_reason":null}]}` + "\n\n", true,
			`data: {"choices":[{"index":0,"text":"hi"}]}` + "\n\n",
		},
		{
			"responses, text", answer.APIResponses, typed("response.created", `,"response":{"id":"r"}`) +
				typed("response.in_progress", `,"response":{"id":"r"}`), false,
			typed("response.output_text.delta", `,"delta":"hi"`),
		},
		{
			"responses, parts", answer.APIResponses,
			typed("response.output_item.added", `,"item":{"type":"message","content":[]}`) +
				typed("response.content_part.added", `,"part":{"type":"output_text","text":""}`), true,
			typed("response.output_text.delta", `,"delta":"hi"`),
		},
		{
			"responses, reasoning", answer.APIResponses,
			typed("response.output_item.added", `,"item":{"type":"reasoning","summary":[]}`), true,
			typed("response.reasoning_text.delta", `,"delta":"hm"`),
		},
		{
			"responses, tool call", answer.APIResponses, typed("response.created", `,"response":{"id":"r"}`), false,
			typed("response.output_item.added", `,"item":{"id":"f","type":"function_call","name":"f","arguments":""}`),
		},
		{
			"responses, type last", answer.APIResponses,
			`data: {"response":{"id":"r","output":[]},"sequence_number":0,"type":"response.created"}` + "\n\n", false,
			`data: {"delta":"hi","type":"response.output_text.delta"}` + "\n\n",
		},
		{
			"messages, text", answer.APIMessages, typed("message_start", `,"message":{"usage":{"input_tokens":3}}`) +
				typed("ping", ""), false, typed("content_block_delta", `,"delta":{"type":"text_delta","text":"hi"}`),
		},
		{
			"messages, block", answer.APIMessages,
			typed("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`), true,
			typed("content_block_delta", `,"delta":{"type":"thinking_delta","thinking":"hm"}`),
		},
		{
			"messages, tool", answer.APIMessages, typed("message_start", `,"message":{}`), false, typed(
				"content_block_start", `,"index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}`),
		},
		{
			"generate", answer.APIGenerate, `data: {"text":"","output_ids":[],"meta_info":{"finish_reason":null}}` +
				"\n\n", true, `data: {"text":"hi","output_ids":[1],"meta_info":{}}` + "\n\n",
		},
		{"generate, ids", answer.APIGenerate, ":\n\n", false, `data: {"output_ids":[1],"meta_info":{}}` + "\n\n"},
		{
			"Ollama chat", answer.APIOllamaChat,
			line(`{"model":"m","message":{"role":"assistant","content":""},"done":false}`), true,
			line(`{"model":"m","message":{"role":"assistant","content":"hi"},"done":false}`),
		},
		{
			"Ollama chat, thinking", answer.APIOllamaChat, "", false,
			line(`{"message":{"role":"assistant","content":"","thinking":"hm"},"done":false}`),
		},
		{
			"Ollama chat, tool", answer.APIOllamaChat, "", false,
			line(`{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"}}]},"done":false}`),
		},
		{
			"Ollama generate", answer.APIOllamaGenerate, line(`{"model":"m","response":"","done":false}`), true,
			line(`{"model":"m","response":"hi","done":false}`),
		},
		{
			"Ollama generate, thinking", answer.APIOllamaGenerate, "", false,
			line(`{"response":"","thinking":"hm","done":false}`),
		},
		{
			"Ollama, empty answer", answer.APIOllamaGenerate, "", false,
			line(`{"response":"","done":true,"done_reason":"stop"}`),
		},
		{
			"Ollama's pull", answer.APIOther,
			line(`{"status":"pulling manifest"}`) + line(`{"status":"pulling 1","total":9,"completed":3}`), true,
			line(`{"message":{"content":"hi"},"done":false}`),
		},
		{"llama.cpp's own", answer.APIOther, `data: {"index":0,"content":"","tokens":[],"stop":false,"tokens_evaluated":9,"prompt_progress":{"total":900,"processed":512}}` + "\n\n", true, `data: {"index":0,"content":"hi","stop":false}` + "\n\n"},
		{
			"unknown form", answer.APIOther, ": ping\n\n", false,
			`data: {"token":{"id":5,"text":"hi"},"generated_text":null}` + "\n\n",
		},
		{"no JSON", answer.APIOther, "\n", false, "data: hi\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{1, 7, 1 << 20} {
				s := answer.Scanner{API: tt.api}
				write := func(text string) {
					for ; text != ""; text = text[min(n, len(text)):] {
						s.Write([]byte(text[:min(n, len(text))]))
					}
				}
				if write(tt.before); s.Data() || s.Opened() != tt.open {
					t.Errorf("in pieces of %d, before the token: data %t, opened %t, want %t",
						n, s.Data(), s.Opened(), tt.open)
				}
				if write(tt.token); !s.Data() || !s.Opened() || s.Failed() {
					t.Errorf("in pieces of %d, after the token: data %t, opened %t, failed %t",
						n, s.Data(), s.Opened(), s.Failed())
				}
			}
		})
	}
}

// TestEndMarks: every mark ends a stream, whole and whatever the line ends are, and no part of it does.
func TestEndMarks(t *testing.T) {
	context := strings.Repeat("12345,", 4000)
	for _, tt := range []struct{ name, api, stream string }{
		{"[DONE]", answer.APIChat, "data: [DONE]\n\n"},
		{"no space", answer.APIGenerate, "data:[DONE]\n\n"},
		{
			"responses", answer.APIResponses, "event: response.completed\n" +
				"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[{}]}}\n\n",
		},
		{"incomplete", answer.APIResponses, "data: {\"type\":\"response.incomplete\",\"response\":{\"id\":\"r\"}}\n\n"},
		{"cancelled", answer.APIResponses, "data: {\"type\":\"response.cancelled\",\"response\":{\"id\":\"r\"}}\n\n"},
		{"failed", answer.APIResponses, "data: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\"}}\n\n"},
		{"messages", answer.APIMessages, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		{
			"Ollama chat", answer.APIOllamaChat,
			`{"message":{"role":"assistant","content":""},"done":true,"eval_count":3}` + "\n",
		},
		{"Ollama generate", answer.APIOllamaGenerate, `{"model":"m","response":"","done":true,"done_reason":"stop","context":[1,2,3],"total_duration":5,"eval_count":3}` + "\n"},
		{
			"Ollama generate, long", answer.APIOllamaGenerate, `{"model":"` + strings.Repeat("m", 600) +
				`","response":"","done":true,"context":[` + context + `1],"total_duration":5,"eval_count":3}` + "\n",
		},
		{"llama.cpp", answer.APIOther, `data: {"index":0,"content":"","stop":true,"tokens_evaluated":3,"stop_type":"eos","timings":{"prompt_n":3}}` + "\n\n"},
		{
			"llama.cpp, long", answer.APIOther, `data: {"index":0,"content":"` + strings.Repeat("x", 600) +
				`","stop":true,"prompt":"` + context + `","stop_type":"eos","timings":{"prompt_n":3}}` + "\n\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			whole := strings.TrimRight(tt.stream, "\n")
			if strings.HasPrefix(whole, "event") {
				whole = whole[strings.Index(whole, "\n")+1:]
			}
			for name, stream := range map[string]string{
				"as sent": tt.stream, "CRLF": strings.ReplaceAll(tt.stream, "\n", "\r\n"),
				"comments after it": tt.stream + ": bye\n\n:\n\n",
			} {
				s := answer.Scanner{API: tt.api}
				s.Write([]byte(stream))
				if s.Close(); !s.Done() {
					t.Errorf("%s: not seen", name)
				}
			}
			before := strings.TrimSuffix(strings.TrimRight(tt.stream, "\n"), whole)
			for cut := range len(whole) {
				if cut > 1000 && cut < len(whole)-1000 {
					continue
				}
				s := answer.Scanner{API: tt.api}
				s.Write([]byte(before + whole[:cut]))
				if s.Close(); s.Done() {
					t.Fatalf("seen in %q", whole[:cut])
				}
			}
		})
	}
}

// TestEndOf: each kind of engine and API has a mark, or is known to have none.
func TestEndOf(t *testing.T) {
	apis := []string{
		answer.APIChat, answer.APICompletions, answer.APIResponses, answer.APIMessages, answer.APIGenerate,
		answer.APIOllamaChat, answer.APIOllamaGenerate, answer.APIOther, answer.APICountTokens, answer.APIEmbeddings,
	}
	done, completed, stop, line, stopped, learnt, none := answer.EndDone, answer.EndCompleted, answer.EndStop,
		answer.EndLine, answer.EndStopped, answer.EndLearnt, answer.EndNone
	for kind, want := range map[fleet.Kind][]answer.End{
		fleet.KindVLLM:     {done, done, completed, stop, learnt, learnt, learnt, learnt, none, none},
		fleet.KindSGLang:   {done, done, completed, stop, done, line, line, learnt, none, none},
		fleet.KindTRTLLM:   {done, done, completed, stop, learnt, learnt, learnt, learnt, none, none},
		fleet.KindLlamaCpp: {done, done, completed, stop, learnt, learnt, learnt, stopped, none, none},
		fleet.KindOllama:   {done, done, completed, stop, learnt, line, line, learnt, none, none},
		fleet.KindOther:    {learnt, learnt, learnt, learnt, learnt, learnt, learnt, learnt, none, none},
		fleet.KindUnknown:  {learnt, learnt, learnt, learnt, learnt, learnt, learnt, learnt, none, none},
	} {
		for i, api := range apis {
			if got := answer.EndOf(kind, api); got != want[i] {
				t.Errorf("%s, %s: %q, want %q", kind, api, got, want[i])
			}
		}
	}
}
