package trtllm

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
)

// TestTRTLLMParameters: every published parameter of TensorRT-LLM's routers (tensorrt_llm/serve/router.py up to
// September 2026; A is PR 12526, B what followed in June) exists here under its name and with its published default.
// Additional options are listed too.
func TestTRTLLMParameters(t *testing.T) {
	o := Config{}.WithDefaults()
	balancing := NewLoadBalancing(o.LoadBalancing).(*loadBalancing)
	kv := NewKVCacheAware(o.KVCacheAware).(*kvCacheAware)
	conv := NewConversation(o.Conversation).(*conversation)
	const ours = "ours"
	var options []string
	for router := range reflect.TypeFor[Config]().Fields() {
		for option := range router.Type.Fields() {
			options = append(options, router.Tag.Get("yaml")+"."+option.Tag.Get("yaml"))
		}
	}
	for _, p := range []struct {
		router, name string
		published    string // default
		here         any    // effective value
	}{
		{"load_balancing", "use_tokens", "false", balancing.tokens},

		{"kv_cache_aware", "use_tokens", "false", o.KVCacheAware.UseTokens},
		{"kv_cache_aware", "max_batch_size", "64", kv.batch},
		{
			"kv_cache_aware", "tokens_per_block", "A 32, B the worker's, until then 32",
			fmt.Sprintf("A 32, B the worker's, until then %d", defaultTokensPerBlock+kv.block),
		},
		{"kv_cache_aware", "custom_tokenizer", "", o.KVCacheAware.CustomTokenizer},
		{
			"kv_cache_aware", "backfill_block_hashes_on_finish", "A false, B true by the name track_routed_blocks",
			fmt.Sprintf("A false, B %v by the name track_routed_blocks", kv.tracks),
		},
		{"kv_cache_aware", "track_routed_blocks", "true", kv.tracks},
		{"kv_cache_aware", "load_weight", "0.25", kv.weight},
		{"kv_cache_aware", "load_cap", "+Inf", kv.cap},
		{"kv_cache_aware", "tokenizer_dir", "", o.KVCacheAware.TokenizerDir},
		{"kv_cache_aware", "model_path", "", o.KVCacheAware.ModelPath},
		{"kv_cache_aware", "use_harmony", "<nil>", o.KVCacheAware.UseHarmony},
		{"kv_cache_aware", "score", ours, ours},
		{"kv_cache_aware", "content_affinity", ours, ours},

		{"conversation", "match_threshold", "0.75", conv.threshold},
		{"conversation", "tokens_per_block", "128", conv.block},
		{"conversation", "use_token_ids", "false", conv.tokens},
		{"conversation", "hash_skip_count", "0", conv.skip},
		{"conversation", "max_sessions", "100000", conv.sessions.most},
		{"conversation", "use_harmony", "<nil>", o.Conversation.UseHarmony},
		{"conversation", "custom_tokenizer", "", o.Conversation.CustomTokenizer}, // of the common base
		{"conversation", "tokenizer_dir", "", o.Conversation.TokenizerDir},
		{"conversation", "model_path", "", o.Conversation.ModelPath},
		{"conversation", "ids_by_table_only", ours, ours},
		{"conversation", "block_weights", ours, ours},
	} {
		if got := fmt.Sprint(p.here); got != p.published {
			t.Errorf("%s.%s: %s, published %s", p.router, p.name, got, p.published)
		}
		if at := slices.Index(options, p.router+"."+p.name); at < 0 {
			t.Errorf("%s has no option %s", p.router, p.name)
		} else {
			options = slices.Delete(options, at, at+1)
		}
	}
	if len(options) > 0 {
		t.Errorf("not in the table: %q", options)
	}
	// Constants that cannot be configured there either.
	if charsPerToken != 5 || mostPlaced != 50_000 || !math.IsInf(kv.cap, 1) {
		t.Error("a published constant differs")
	}
}
