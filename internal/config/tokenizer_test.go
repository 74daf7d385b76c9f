package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/discovery"
)

// TestTokenizer: which tokenizer counts, of all that may be named, and what it is for.
func TestTokenizer(t *testing.T) {
	dir := t.TempDir()
	model := func(name, config string) string {
		t.Helper()
		at := filepath.Join(dir, name)
		err := os.MkdirAll(at, 0o700)
		for file, text := range map[string]string{"tokenizer.json": "{}", "config.json": config} {
			if err == nil && text != "" {
				err = os.WriteFile(filepath.Join(at, file), []byte(text), 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	qwen, gpt, bare := model("qwen", `{"model_type":"qwen3"}`), model("gpt", `{"model_type":"gpt_oss"}`),
		model("bare", "")
	for _, c := range []struct {
		name, text string
		want       Tokenizer
	}{
		{"none", "policy: trtllm.kv_cache_aware", Tokenizer{}},
		{"kv_events", "kv_events: {tokenizer: " + qwen + "}", Tokenizer{Path: qwen, Field: "kv_events.tokenizer"}},
		{
			"its file", "kv_events: {tokenizer: " + qwen + "/tokenizer.json}",
			Tokenizer{Path: qwen + "/tokenizer.json", Field: "kv_events.tokenizer"},
		},
		{
			"harmony by the model", "kv_events: {tokenizer: " + gpt + "/tokenizer.json}",
			Tokenizer{Path: gpt + "/tokenizer.json", Field: "kv_events.tokenizer", Harmony: true},
		},
		{
			"tokenizer_dir", "policy: {name: trtllm.kv_cache_aware, trtllm: {kv_cache_aware: {tokenizer_dir: " + qwen +
				", model_path: " + gpt + ", custom_tokenizer: x.Y}}}",
			Tokenizer{Path: qwen, Field: "policy.trtllm.kv_cache_aware.tokenizer_dir"},
		},
		{
			"model_path, and no harmony all the same",
			"policy: {name: trtllm.conversation, trtllm: {conversation: {model_path: " + gpt +
				", use_harmony: false}}}",
			Tokenizer{Path: gpt, Field: "policy.trtllm.conversation.model_path"},
		},
		{
			"harmony stated beside kv_events", "kv_events: {tokenizer: " + bare +
				"}\npolicy: {name: trtllm.kv_cache_aware, trtllm: {kv_cache_aware: {use_harmony: true}}}",
			Tokenizer{Path: bare, Field: "kv_events.tokenizer", Harmony: true},
		},
		{
			"of a policy that is not in use",
			"policy: {name: session, trtllm: {kv_cache_aware: {tokenizer_dir: " + qwen + "}}}",
			Tokenizer{},
		},
		{
			"of who decodes",
			"disaggregation: {decode_policy: trtllm.conversation}\npolicy: {trtllm: {conversation: {tokenizer_dir: " +
				qwen + "}}}",
			Tokenizer{Path: qwen, Field: "policy.trtllm.conversation.tokenizer_dir"},
		},
	} {
		cfg, err := Parse("f.yaml", []byte(c.text), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := cfg.Tokenizer(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		} else if err := cfg.CheckFiles(discovery.None()); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}

	_, err := Parse("f.yaml", []byte("kv_events:\n  tokenizer: "+qwen+
		"\npolicy:\n  name: trtllm.conversation\n  trtllm:\n    conversation:\n      tokenizer_dir: "+gpt+"\n"), nil)
	if err == nil || !strings.Contains(err.Error(), "f.yaml:7") ||
		!strings.Contains(err.Error(), "one tokenizer serves all engines") {
		t.Errorf("two tokenizers: %v", err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "nowhere")} { // without tokenizer.json
		cfg, err := Parse("f.yaml", []byte("kv_events: {tokenizer: "+path+"}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := cfg.CheckFiles(discovery.None()); err == nil ||
			!strings.Contains(err.Error(), "kv_events.tokenizer") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestTRTLLMBlockVariable: TensorRT-LLM's own variable overrides the block size in the file; one of ours overrides
// both.
func TestTRTLLMBlockVariable(t *testing.T) {
	const name = "TRTLLM_KVCACHE_AWARE_ROUTER_HASH_TOKENS_PER_BLOCK"
	file := []byte("policy: {name: trtllm.kv_cache_aware, trtllm: {kv_cache_aware: {tokens_per_block: 128}}}")
	for _, c := range []struct {
		env  []string
		want int
	}{
		{nil, 128},
		{[]string{name + "=64"}, 64},
		{[]string{name + "="}, 128},
		{[]string{name + "=64", "WARMPATH_POLICY_TRTLLM_KV_CACHE_AWARE_TOKENS_PER_BLOCK=16"}, 16},
	} {
		cfg, err := Parse("f.yaml", file, c.env)
		if got := cfg.Policy.TRTLLM.KVCacheAware.TokensPerBlock; err != nil || got != c.want ||
			cfg.Policy.TRTLLM.Conversation.TokensPerBlock != 128 {
			t.Errorf("%q: %d, %v, want %d", c.env, got, err, c.want)
		}
	}
	for _, bad := range []string{"0", "-32", "32.5", "many", "99999999"} {
		if _, err := Parse("f.yaml", file, []string{name + "=" + bad}); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
