package tokenizer

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// chatCase is what transformers made of one chat.
type chatCase struct {
	Template string  `json:"template"`
	Case     string  `json:"case"`
	Text     string  `json:"text"`
	IDs      []int32 `json:"ids"`
	Error    string  `json:"error"`
}

// loadChat loads a model with a chat template.
func loadChat(t testing.TB, template string) *Tokenizer {
	t.Helper()
	tok, err := Load(writeModel(t, "llama3", false, map[string]string{
		"chat_template.jinja":   template,
		"tokenizer_config.json": `{"bos_token": "<|start|>", "eos_token": {"content": "<|end|>", "special": true}}`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func readTemplate(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "templates", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// bodies are two ways to ask for a case: arguments of calls as objects, and as texts, as the API has it.
func bodies(t *testing.T, messages []map[string]json.RawMessage, kwargs map[string]json.RawMessage) [][]byte {
	t.Helper()
	var out [][]byte
	for _, asText := range []bool{false, true} {
		body := map[string]any{"model": "m"}
		loose := map[string]json.RawMessage{}
		for name, v := range kwargs {
			switch name {
			case "tools", "documents", "add_generation_prompt", "continue_final_message":
				body[name] = v
			default:
				loose[name] = v
			}
		}
		if len(loose) > 0 {
			body["chat_template_kwargs"] = loose
		}
		if body["add_generation_prompt"] == nil {
			body["add_generation_prompt"] = false // transformers' default, not the servers'
		}
		msgs := []map[string]json.RawMessage{}
		for _, m := range messages {
			m = maps.Clone(m)
			if asText && m["tool_calls"] != nil {
				m["tool_calls"] = callsAsText(t, m["tool_calls"])
			}
			msgs = append(msgs, m)
		}
		body["messages"] = msgs
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func callsAsText(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var calls []struct {
		ID       string `json:"id"`
		Function struct {
			Arguments json.RawMessage `json:"arguments"`
			Name      string          `json:"name"`
		} `json:"function"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &calls); err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		text, err := json.Marshal(string(calls[i].Function.Arguments))
		if err != nil {
			t.Fatal(err)
		}
		calls[i].Function.Arguments = text
	}
	out, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestChatsAsTransformersRendersThem(t *testing.T) {
	var in map[string]struct {
		Messages []map[string]json.RawMessage `json:"messages"`
		Kwargs   map[string]json.RawMessage   `json:"kwargs"`
	}
	var cases []chatCase
	readJSON(t, "chats_in.json", &in)
	readJSON(t, "chat.json", &cases)
	toks := map[string]*Tokenizer{}
	for _, c := range cases {
		if toks[c.Template] == nil {
			toks[c.Template] = loadChat(t, readTemplate(t, c.Template))
		}
		tok := toks[c.Template]
		t.Run(strings.TrimSuffix(c.Template, ".jinja")+"/"+c.Case, func(t *testing.T) {
			for _, body := range bodies(t, in[c.Case].Messages, in[c.Case].Kwargs) {
				got, err := tok.Request(body)
				if c.Error != "" {
					if err == nil || !strings.Contains(err.Error(), c.Error) {
						t.Errorf("error %v, want %s", err, c.Error)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%v\n%s", err, body)
				}
				if slices.Equal(got, c.IDs) {
					continue
				}
				var r request
				if err := json.Unmarshal(body, &r); err != nil {
					t.Fatal(err)
				}
				text, _ := tok.chat.text(&r)
				t.Errorf("%s\n got  %q\n want %q", body, text, c.Text)
			}
		})
	}
}
