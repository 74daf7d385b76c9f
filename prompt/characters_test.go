package prompt_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/prompt"
)

// The rule of production-stack's PR 890: a text, or the sum of a chat's text parts, without non-text.
func TestCharacters(t *testing.T) {
	chat, completions := prompt.Chat, prompt.Completions
	tools := `"tools":[{"type":"function","function":{"name":"f","description":"` + strings.Repeat("d", 1600) + `"}}]`
	tests := []struct {
		name string
		api  prompt.API
		body string
		want int
	}{
		{"a text", completions, `{"prompt":"0123456789"}`, 10},
		{"texts", completions, `{"prompt":["01234","56789"]}`, 10},
		{"token ids", completions, `{"prompt":[1,2,3]}`, 0},
		{"lists of token ids", completions, `{"prompt":[[1,2],[3]]}`, 0},
		{
			"a chat, without its roles", chat,
			`{"messages":[{"role":"system","content":"01234"},{"role":"user","content":"56789"}]}`, 10,
		},
		{"without tools", chat, `{` + tools + `,"messages":[{"role":"user","content":"0123456789"}]}`, 10},
		{"parts", chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"01234"},{"type":"image_url","image_url":{"url":"data:..."}},{"type":"text","text":"56789"}]}]}`, 10},
		{"no content", chat, `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`, 0},
		{"characters, not bytes", chat, `{"messages":[{"role":"user","content":"日本語\u00e9\ud83d\ude00"}]}`, 5},
		{"the last of two", completions, `{"prompt":"0123456789","prompt":"01"}`, 2},
		{"a system prompt apart", prompt.Messages, `{"system":"012","messages":[{"role":"user","content":"34"}]}`, 5},
		{"no prompt", chat, `{}`, 0},
		{"cut off", chat, `{"messages":[{"content":"0`, 0},
		{"no object", chat, `[]`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := prompt.Characters(tt.api, []byte(tt.body)); got != tt.want {
				t.Errorf("%d characters, want %d", got, tt.want)
			}
		})
	}
}

func FuzzCharacters(f *testing.F) {
	f.Add([]byte(`{"messages":[{"content":[{"text":"x"}]}]}`))
	f.Add([]byte(`{"prompt":["a",[1]]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for api := prompt.Other; api <= prompt.OllamaGenerate; api++ {
			if n := prompt.Characters(api, body); n < 0 || n > len(body) {
				t.Errorf("%d characters of %d bytes", n, len(body))
			}
		}
	})
}
