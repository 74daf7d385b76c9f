package tokenizer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestRequest(t *testing.T) {
	tok := loadChat(t, `{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.name }}{{ m.tool_calls | tojson if m.tool_calls }}{% endfor %}{% if tools is not none %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}!{% endif %}{{ mood }}`)
	bos := tok.before[0]
	text := func(s string) []int32 { return tok.Encode(s, false) }
	rows := []struct {
		name, body string
		want       []int32
		err        string
	}{
		{"text", `{"prompt":"Hello"}`, append([]int32{bos}, text("Hello")...), ""},
		{"text without special tokens", `{"prompt":"Hello","add_special_tokens":false}`, text("Hello"), ""},
		{"one text in a list", `{"prompt":[ "Hello"]}`, append([]int32{bos}, text("Hello")...), ""},
		{"ids", `{"prompt":[1,2,2147483647]}`, []int32{1, 2, 2147483647}, ""},
		{"no ids", `{"prompt":[]}`, []int32{}, ""},
		{"one list of ids", `{"prompt":[[1,2]]}`, []int32{1, 2}, ""},
		{"empty text", `{"prompt":""}`, []int32{bos}, ""},
		{"two texts", `{"prompt":["a","b"]}`, nil, "has 2 prompts"},
		{"negative id", `{"prompt":[1,-1]}`, nil, "-1 at place 1 is not a token id"},
		{"id beyond 32 bits", `{"prompt":[2147483648]}`, nil, "is not a token id"},
		{"fraction", `{"prompt":[1.5]}`, nil, "is not a token id"},
		{"text among ids", `{"prompt":[1,"a"]}`, nil, "no list of token ids"},
		{"list in list in list", `{"prompt":[[[1]]]}`, nil, "no list of token ids"},
		{"object", `{"prompt":{"a":1}}`, nil, "neither a text nor a list"},
		{"nothing", `{"model":"m"}`, nil, "neither messages nor prompt"},
		{"no JSON", `{`, nil, "the body is no request"},
		{"truncated", `{"prompt":"a","truncate_prompt_tokens":3}`, nil, "truncate_prompt_tokens"},
		{"chat", `{"messages":[{"role":"user","content":"Hi"}]}`, text("<|start|><user>Hi!"), ""},
		{
			"chat with special tokens", `{"messages":[{"role":"user","content":"Hi"}],"add_special_tokens":true}`,
			append([]int32{bos}, text("<|start|><user>Hi!")...), "",
		},
		{"chat of given ids", `{"messages":[{"role":"user","content":"Hi"}],"prompt_token_ids":[5,6]}`, []int32{
			5, 6,
		}, ""},
		{
			"no prompt for an answer", `{"messages":[{"role":"user","content":"Hi"}],"add_generation_prompt":false}`,
			text("<|start|><user>Hi"), "",
		},
		{"continued", `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Well "}],"add_generation_prompt":false,"continue_final_message":true}`, text("<|start|><user>Hi<assistant>Well "), ""},
		{
			"continued with a prompt", `{"messages":[{"role":"user","content":"Hi"}],"continue_final_message":true}`,
			nil, "no generation prompt",
		},
		{
			"variables", `{"messages":[],"chat_template_kwargs":{"mood":"glad","add_generation_prompt":false}}`,
			text("<|start|>glad"), "",
		},
		{"variables that are none", `{"messages":[],"chat_template_kwargs":[1]}`, nil, "is not an object"},
		{"parts", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},"b",{"type":"text","text":""},{"type":"text","text":"c"}],"name":"bob"}]}`, text("<|start|><user>a\nb\nc!"), ""},
		{"no content", `{"messages":[{"role":"assistant","content":null}]}`, text("<|start|><assistant>!"), ""},
		{
			"image", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}]}`,
			nil, "known only to what runs the model",
		},
		{"unknown part", `{"messages":[{"role":"user","content":[{"type":"smell"}]}]}`, nil, "not known"},
		{"no role", `{"messages":[{"content":"a"}]}`, nil, "messages[0]: has no role"},
		{"no object", `{"messages":["a"]}`, nil, "messages[0]: is not an object"},
		{"no list", `{"messages":{}}`, nil, "messages: is not a list"},
		{"no tools", `{"messages":[],"tools":[]}`, text("<|start|>[]!"), ""},
		{
			"tools in the order of their definition", `{"messages":[],"tools":[{"function":{"parameters":{"b":1,"a":2},"name":"f","strict":true},"type":"function"}]}`,
			text(`<|start|>[{"type": "function", "function": {"name": "f", "description": null, "parameters": {"b": 1, "a": 2}, "strict": true}}]!`), "",
		},
		{"tool of another kind", `{"messages":[],"tools":[{"type":"custom"}]}`, nil, "tools[0]: is no function"},
		{
			"calls", `{"messages":[{"role":"assistant","tool_calls":[{"type":"function","index":0,"id":"c","function":{"name":"f","arguments":"{\"y\": 1, \"x\": [1.0]}"}}]}]}`,
			text(`<|start|><assistant>[{"id": "c", "function": {"arguments": {"y": 1, "x": [1.0]}, "name": "f"}, "type": "function"}]!`), "",
		},
		{
			"calls of another shape", `{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":{"x":1},"name":"f"},"id":"c"}]}]}`,
			text(`<|start|><assistant>[{"id": "c", "function": {"name": "f", "arguments": {"x": 1}}}]!`), "",
		},
		{
			"arguments that are no JSON", `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{oops"}}]}]}`,
			text(`<|start|><assistant>[{"id": "c", "function": {"arguments": "{oops", "name": "f"}, "type": "function"}]!`), "",
		},
		{
			"arguments that are not an object",
			`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[1]"}}]}]}`, nil,
			"not a JSON object",
		},
		{"own template", `{"messages":[],"chat_template":"{{ 1 }}"}`, nil, "a chat template of its own"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			got, err := tok.Request([]byte(r.body))
			if r.err != "" {
				if err == nil || !strings.Contains(err.Error(), r.err) {
					t.Fatalf("got %v, %v; want the error %q", got, err, r.err)
				}
				return
			}
			if err != nil || !slices.Equal(got, r.want) {
				t.Fatalf("got %v, %v\nwant %v", got, err, r.want)
			}
		})
	}
}

func TestRequestWithoutTemplate(t *testing.T) {
	tok := load(t, "gpt2")
	if _, err := tok.Request([]byte(`{"messages":[{"role":"user","content":"Hi"}]}`)); !errors.Is(err, ErrTemplate) {
		t.Errorf("got %v, want ErrTemplate", err)
	}
	if _, err := loadChat(t, "x").Request(
		[]byte(`{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`)); !errors.Is(err, ErrMedia) {
		t.Errorf("got %v, want ErrMedia", err)
	}
}

func TestNamedTemplates(t *testing.T) {
	dir := writeModel(t, "gpt2", false, map[string]string{
		"tokenizer_config.json": `{"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", ` +
			`"template": "tools"}]}`,
	})
	tok, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{`{"messages":[]}`: "plain", `{"messages":[],"tools":[]}`: "tools"} {
		if got, err := tok.Request([]byte(body)); err != nil || !slices.Equal(got, tok.Encode(want, false)) {
			t.Errorf("%s: got %v, %v; want the tokens of %s", body, got, err, want)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	part := func(key, value string) map[string]string { return map[string]string{key: value} }
	rows := []struct {
		name string
		file map[string]string // parts of tokenizer.json that are changed
		more map[string]string // files beside it
		want string
	}{
		{
			name: "WordPiece", file: part("model", `{"type":"WordPiece","vocab":{"a":0}}`),
			want: `type "WordPiece" is not supported`,
		},
		{
			name: "SentencePiece", file: part("model",
				`{"type":"BPE","byte_fallback":true,"vocab":{"a":0},"merges":[]}`), want: "byte_fallback",
		},
		{name: "dropout", file: part("model", `{"type":"BPE","dropout":0.1,"vocab":{"a":0}}`), want: "dropout"},
		{name: "no vocabulary", file: part("model", `{"type":"BPE"}`), want: "has no vocabulary"},
		{name: "negative id", file: part("model", `{"type":"BPE","vocab":{"a":-1}}`), want: "negative id -1"},
		{
			name: "merge of three", file: part("model", `{"type":"BPE","vocab":{"a":0},"merges":["a a a"]}`),
			want: "model.merges[0]",
		},
		{
			name: "merge of what is not there",
			file: part("model", `{"type":"BPE","vocab":{"a":0},"merges":[["a","b"]]}`), want: "not in the vocabulary",
		},
		{
			name: "Metaspace", file: part("pre_tokenizer", `{"type":"Metaspace"}`),
			want: `type "Metaspace" is not supported`,
		},
		{name: "no pre-tokenizer", file: part("pre_tokenizer", `null`), want: "pre_tokenizer: there is none"},
		{name: "no ByteLevel", file: part("pre_tokenizer", `{"type":"Digits"}`), want: "no ByteLevel"},
		{
			name: "unknown pattern",
			file: part("pre_tokenizer", `{"type":"Split","pattern":{"Regex":"\\w+"},"behavior":"Isolated"}`),
			want: `pattern "\\w+" of a Split is not known`,
		},
		{
			name: "behaviour",
			file: part("pre_tokenizer", `{"type":"Split","pattern":{"Regex":"\\p{N}{1,3}"},"behavior":"Removed"}`),
			want: `behavior "Removed"`,
		},
		{
			name: "lower case", file: part("normalizer", `{"type":"Lowercase"}`),
			want: `normalizer: type "Lowercase" is not supported`,
		},
		{
			name: "Bert", file: part("post_processor", `{"type":"BertProcessing"}`),
			want: `post_processor: type "BertProcessing"`,
		},
		{
			name: "template without a text", file: part("post_processor", `{"type":"TemplateProcessing","single":[]}`),
			want: "no place for it",
		},
		{
			name: "added token of another id", file: part("added_tokens", `[{"id":5,"content":"!"}]`),
			want: `added_tokens: "!" has id 5`,
		},
		{name: "version", file: part("version", `"2.0"`), want: `version "2.0" is not supported`},
		{
			name: "bad template", more: part("chat_template.jinja", "{% if x %}"),
			want: "chat_template default: jinja: line 1",
		},
		{
			name: "unknown filter", more: part("chat_template.jinja", "{{ x | frobnicate }}"),
			want: `the filter "frobnicate" is not supported`,
		},
		{
			name: "file in a template", more: part("chat_template.jinja", "{% include '/etc/passwd' %}"),
			want: `the statement "include" is not supported`,
		},
		{name: "gpt-oss", more: part("config.json", `{"model_type":"gpt_oss"}`), want: "harmony"},
		{name: "config", more: part("tokenizer_config.json", `{"bos_token": 3}`), want: "bos_token is neither"},
		{
			name: "two ids", more: part("tokenizer_config.json",
				`{"added_tokens_decoder": {"7": {"content": "<|end|>"}}}`), want: "and 7 in tokenizer_config.json",
		},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			dir := writeModel(t, "gpt2", false, r.more)
			path := filepath.Join(dir, "tokenizer.json")
			if r.file != nil {
				var file map[string]json.RawMessage
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(b, &file); err != nil {
					t.Fatal(err)
				}
				for key, value := range r.file {
					file[key] = json.RawMessage(value)
				}
				if b, err = json.Marshal(file); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Load(dir)
			if err == nil || !strings.Contains(err.Error(), r.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v, want an error that says %q and names the file", err, r.want)
			}
		})
	}
}

func TestLoadOfWhatIsNotThere(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := Load(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	big := filepath.Join(t.TempDir(), "tokenizer.json")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(mostFile+1), f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(big); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("got %v", err)
	}
}

func TestTokenizerIsForAll(t *testing.T) {
	tok := loadChat(t, readTemplate(t, "thinking_tools.jinja"))
	var g golden
	readJSON(t, "golden.json", &g)
	body := []byte(`{"messages":[{"role":"user","content":"Hi"}]}`)
	want, err := tok.Request(body)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i, text := range g.Texts {
				if got := tok.Encode(text, false); !slices.Equal(got, g.Plain["llama3"][i]) {
					t.Errorf("%q: got %v", text, got)
				}
			}
			if got, err := tok.Request(body); err != nil || !slices.Equal(got, want) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	all.Wait()
}

func TestCacheIsBounded(t *testing.T) {
	var c cache
	for i := range 3*cachedWords + 7 {
		b := []byte{byte(i), byte(i >> 8), byte(i >> 16)}
		c.put(string(b), []int32{int32(i)})
		if n := len(c.young) + len(c.old); n > 2*cachedWords {
			t.Fatalf("holds %d words", n)
		}
	}
	if got := c.get(string([]byte{0, 0, 0})); got != nil {
		t.Errorf("the first word is still there: %v", got)
	}
	last := 3*cachedWords + 6
	if got := c.get(string([]byte{byte(last), byte(last >> 8), byte(last >> 16)})); !slices.Equal(got,
		[]int32{int32(last)}) {
		t.Errorf("the last word: got %v", got)
	}
}

func FuzzRequest(f *testing.F) {
	tok := loadChat(f, readTemplate(f, "thinking_tools.jinja"))
	f.Add([]byte(`{"messages":[{"role":"user","content":"Hi"}],"tools":[{"function":{"name":"f"}}]}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"text","text":"x"}],"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}],"continue_final_message":true}`))
	f.Add([]byte(`{"prompt":[[1,2]]}`))
	f.Add([]byte(`{"messages":[],"chat_template_kwargs":{"messages":3}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		ids, err := tok.Request(body)
		if err != nil {
			return
		}
		for _, id := range ids {
			if id < 0 {
				t.Fatalf("token %d", id)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	var g golden
	readJSON(b, "golden.json", &g)
	text := strings.Repeat(strings.Join(g.Texts, " "), 20)
	for _, name := range []string{"gpt2", "llama3", "o200k", "deepseek"} {
		b.Run(name, func(b *testing.B) {
			tok := load(b, name)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				tok.Encode(text, false)
			}
		})
	}
}

func BenchmarkRequest(b *testing.B) {
	tok := loadChat(b, readTemplate(b, "thinking_tools.jinja"))
	msgs := make([]map[string]string, 60)
	for i := range msgs {
		msgs[i] = map[string]string{
			"role":    []string{"user", "assistant"}[i%2],
			"content": strings.Repeat("a conversation is as long as its turns and what was said in them ", 8),
		}
	}
	body, err := json.Marshal(map[string]any{"messages": msgs})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tok.Request(body); err != nil {
			b.Fatal(err)
		}
	}
}
