package migrate

import (
	"strings"
	"testing"
)

// TestTokenizers: where TensorRT-LLM's routers find the tokenizer comes along; what names Python code is listed.
func TestTokenizers(t *testing.T) {
	for _, c := range []struct {
		name, context, generation string
		want, missing             []string
	}{
		{
			"one of two names, and harmony", "{type: kv_cache_aware, model_path: /m, use_harmony: True}",
			"{type: kv_cache_aware, model_path: /m}",
			[]string{"model_path: /m\n", "use_harmony: true\n"},
			nil,
		},
		{
			"not stated", "{type: kv_cache_aware, tokenizer_dir: null, use_harmony: null, model_path: ''}",
			"{}", nil, nil,
		},
		{
			"another one for the other role", "{type: kv_cache_aware, tokenizer_dir: /a}",
			"{type: conversation, model_path: /b}",
			[]string{"tokenizer_dir: /a\n"},
			[]string{"one tokenizer serves all engines"},
		},
		{
			"the same for the other role", "{type: kv_cache_aware, tokenizer_dir: /a}",
			"{type: conversation, model_path: /a}",
			[]string{"tokenizer_dir: /a\n", "model_path: /a\n"},
			nil,
		},
		{
			"two options of one router", "{type: kv_cache_aware, tokenizer_dir: /a}",
			"{type: kv_cache_aware, tokenizer_dir: /b}",
			[]string{"tokenizer_dir: /a\n"},
			[]string{"both roles share the options"},
		},
		{"code", "{type: conversation, custom_tokenizer: deepseek_v32}", "{}", nil, []string{"names Python code"}},
		{
			"harmony that is neither", "{type: kv_cache_aware, use_harmony: auto}", "{}", nil,
			[]string{"neither true nor false"},
		},
		{
			"a router without", "{type: round_robin, tokenizer_dir: /a}", "{}", nil,
			[]string{"round_robin has no such option"},
		},
	} {
		got, err := File("trtllm", "f", []byte("context_servers: {urls: [a:1], router: "+c.context+
			"}\ngeneration_servers: {urls: [b:1], router: "+c.generation+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(string(got.YAML), want) {
				t.Errorf("%s: %q is missing in\n%s", c.name, want, got.YAML)
			}
		}
		if len(c.want) == 0 && strings.Contains(string(got.YAML), "tokenizer") {
			t.Errorf("%s:\n%s", c.name, got.YAML)
		}
		listed := texts(got.Missing)
		if len(listed) != len(c.missing) {
			t.Errorf("%s: listed %q, want %q", c.name, listed, c.missing)
			continue
		}
		for i, want := range c.missing {
			if !strings.Contains(listed[i], want) {
				t.Errorf("%s: listed %q, want %q", c.name, listed[i], want)
			}
		}
	}
}
