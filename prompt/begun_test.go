package prompt

import (
	"encoding/json"
	"testing"
)

// TestBegun: what of a prompt's end is the beginning of the answer.
func TestBegun(t *testing.T) {
	plain := func(s string) string {
		b, err := json.Marshal(map[string]any{"prompt": s, "text": s})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct {
		name, body string
		api        API
		want       int
	}{
		{"nothing", plain("Assistant:"), Completions, 0},
		{"nothing but white space", plain("Assistant: \n"), Completions, 0},
		{"another tag", plain("<|im_start|>assistant\n"), Completions, 0},
		{"thinking", plain("<|im_start|>assistant\n<think>\n"), Completions, len("<think>\n")},
		{"none", plain("a\n<think>\n\n</think>\n\n"), Completions, len("<think>\n\n</think>\n\n")},
		{"closed alone", plain("<｜Assistant｜></think>"), Generate, len("</think>")},
		{"with a prefix", plain("<seed:bos>assistant\n<seed:think>"), OllamaGenerate, len("<seed:think>")},
		{"thought", plain("[|assistant|]<thought>\n"), Completions, len("<thought>\n")},
		{"the word alone", plain("what do you think>"), Completions, 0},
		{"a comparison", plain("if a < b, and that is what all of us think>"), Completions, 0},
		{"all of the prompt", plain("<think>"), Completions, len("<think>")},
		{"nothing at all", plain(""), Completions, 0},
		{"a chat", `{"messages":[{"role":"user","content":"<think>"}]}`, Chat, 0},
		{"token ids", `{"prompt":[1,2,3]}`, Completions, 0},
	} {
		var p Parser
		var chain Chain
		body := c.body
		if c.api == OllamaGenerate {
			body = `{"model":"m","raw":true,` + body[1:]
		}
		if _, err := p.ParseChain(c.api, []byte(body), func(string) string { return "" }, &chain); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := chain.Begun(); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}
