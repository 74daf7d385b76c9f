package tokenizer_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/warmpath/warmpath/internal/tokenizer"
)

// A model of two letters and one merge, and its chat template.
func Example() {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, text := range map[string]string{
		"tokenizer.json": `{
			"version": "1.0",
			"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
			"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
			"added_tokens": [{"id": 3, "content": "<|user|>"}, {"id": 4, "content": "<|assistant|>"}]
		}`,
		"chat_template.jinja": `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	t, err := tokenizer.Load(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Encode("abba", false))
	fmt.Println(t.Request([]byte(`{"messages": [{"role": "user", "content": "abb"}]}`)))
	// Output:
	// [2 1 0]
	// [3 2 1 4] <nil>
}
