package answer

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestCounts: usage that is far from the end of a long answer is found, in pieces of any size.
func TestCounts(t *testing.T) {
	logprobs := `[[-1.5,40,"\"prompt_tokens\": 9"]` + strings.Repeat(`,[-0.25,41,"_tokens"]`, 1000) + "]"
	meta := func(prompt, output, cached string) string {
		return `{"text":"x","output_ids":[1],"meta_info":{"id":"a","prompt_tokens":` + prompt +
			`,"output_token_logprobs":` + logprobs + `,"completion_tokens":` + output +
			`,"cached_tokens":` + cached + `,"cached_tokens_details":null}}`
	}
	usage := `"usage": {"prompt_tokens": 1200, "total_tokens":1207,"completion_tokens":7,` +
		`"prompt_tokens_details":{"cached_tokens":1184},"completion_tokens_details":{"reasoning_tokens":3}}`
	ids := "[7" + strings.Repeat(",151645", 3000) + "]"
	for _, tt := range []struct {
		name, api, body string
		want            fleet.Usage
	}{
		{"SGLang's log probabilities", APIGenerate, meta("12", "1000", "8"), known(12, 8, 1000)},
		{"of several", APIGenerate, "[" + meta("12", "10", "8") + "," + meta("20", "3", "0") + "]", known(32, 8, 13)},
		{"nothing reported", APIGenerate, meta("12", "10", "null"), noCache(12, 10)},
		{
			"vLLM's token ids", APIChat,
			`{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":1}"}}],` + usage +
				`,"prompt_token_ids":` + ids + "}",
			known(1200, 1184, 7),
		},
		{
			"vLLM's prompt_logprobs", APICompletions,
			`{"choices":[],` + usage + `,"prompt_logprobs":` + logprobs + "}", known(1200, 1184, 7),
		},
		{
			"llama.cpp's embeddings", APIEmbeddings,
			`{"object":"list","usage":{"prompt_tokens":5,"total_tokens":5},"data":[{"embedding":` + ids + `}]}`,
			noCache(5, 0),
		},
		{"more than there can be", APIChat, `{"usage":{"prompt_tokens":134217729,"completion_tokens":1}}`, none},
		{"null", APIChat, `{"usage":{"prompt_tokens":null}}`, none},
		{"cut", APIChat, `{"usage":{"prompt_tokens":12`, none},
		{"values", APIChat, `{"choices":["prompt_tokens","completion_tokens"],"a":5}`, none},
		{
			"what a tool is given", APIMessages,
			`{"content":[{"input":{"prompt_tokens":5,"completion_tokens":1}}]}`, none,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{len(tt.body), 1, 2, 7, 47, 48, 49, 96, 1000} {
				var k Counts
				k.Reset(tt.api)
				for rest := tt.body; rest != ""; rest = rest[min(size, len(rest)):] {
					k.Write([]byte(rest[:min(size, len(rest))]))
				}
				if got, ok := k.Usage(); got != tt.want || ok != (tt.want != none) {
					t.Fatalf("in pieces of %d: got %+v %v, want %+v", size, got, ok, tt.want)
				}
			}
			if tt.api != APIGenerate {
				return
			}
			// as the chunks of a stream, each with all so far
			for _, size := range []int{len(tt.body), 1, 48, 5000} {
				s := Scanner{API: tt.api}
				stream := sse(meta("12", "1", "null"), tt.body, "[DONE]")
				for rest := stream; rest != ""; rest = rest[min(size, len(rest)):] {
					s.Write([]byte(rest[:min(size, len(rest))]))
				}
				if got, ok := s.Close(); got != tt.want || !ok || !s.Done() {
					t.Fatalf("a stream in pieces of %d: got %+v %v, want %+v", size, got, ok, tt.want)
				}
			}
		})
	}
}
