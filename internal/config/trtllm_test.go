package config

import (
	"strings"
	"testing"
)

// Options of TensorRT-LLM's routers have their published names; an unknown one, or a bad value, is a fault at its
// place.
func TestTRTLLMOptions(t *testing.T) {
	c, err := Parse("f.yaml", []byte(`policy:
  name: trtllm.conversation
  trtllm:
    load_balancing: {use_tokens: true}
    kv_cache_aware: {score: blocks, max_batch_size: 32, tokens_per_block: 64, track_routed_blocks: false, load_weight: 0, load_cap: 2, content_affinity: off}
    conversation: {match_threshold: 0.5, tokens_per_block: 64, use_token_ids: true, hash_skip_count: 400, max_sessions: 10, block_weights: true}
`), []string{"WARMPATH_POLICY_TRTLLM_CONVERSATION_MAX_SESSIONS=20"})
	if err != nil {
		t.Fatal(err)
	}
	kv, conv := c.Policy.TRTLLM.KVCacheAware, c.Policy.TRTLLM.Conversation
	if kv.LoadWeight == nil || *kv.LoadWeight != 0 || kv.TrackRoutedBlocks == nil || *kv.TrackRoutedBlocks ||
		kv.ContentAffinity != "off" || kv.TokensPerBlock != 64 {
		t.Errorf("kv_cache_aware: %+v", kv)
	}
	if conv.MatchThreshold == nil || *conv.MatchThreshold != 0.5 || conv.MaxSessions != 20 ||
		conv.HashSkipCount != 400 || !conv.UseTokenIDs {
		t.Errorf("conversation: %+v", conv)
	}
	for text, want := range map[string]string{
		"kv_cache_aware: {laod_weight: 1}":       `unknown key "laod_weight"; did you mean "load_weight"?`,
		"kv_cache_aware: {load_weight: .nan}":    "load_weight: want a number",
		"kv_cache_aware: {load_weight: heavy}":   "load_weight",
		"kv_cache_aware: {tokens_per_block: -1}": "tokens_per_block: is -1, must be between 0 and",
		"kv_cache_aware: {score: shares}":        `score: is "shares"; valid: `,
		"conversation: {match_threshold: 75}":    "match_threshold: is 75, must be between 0 and 1",
		"conversation: {max_sessions: -5}":       "max_sessions: is -5, must be between 1 and",
		"conversaton: {}":                        `did you mean "conversation"?`,

		"kv_cache_aware: {custom_tokenizer: deepseek_v32}": "kv_cache_aware.custom_tokenizer: is \"deepseek_v32\": " +
			"that names Python code, and none runs here; set tokenizer_dir",
		"conversation: {custom_tokenizer: a.b.C}": "conversation.custom_tokenizer: is",
		"kv_cache_aware: {use_harmony: perhaps}":  "use_harmony: want true or false",
		"kv_cache_aware: {tokenizer_dir: [a]}":    "tokenizer_dir: want a text",
	} {
		_, err := Parse("f.yaml", []byte("policy:\n  trtllm:\n    "+text+"\n"), nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "f.yaml:3") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTRTLLMRegistration: what is no network, host or address is a fault at its place, and a storage that nobody may
// use is told.
func TestTRTLLMRegistration(t *testing.T) {
	for text, want := range map[string]string{
		"allow: [node-1]":         `trtllm.cluster.allow: "node-1" is not an IP address or a network`,
		"allow_hosts: ['a b']":    `trtllm.cluster.allow_hosts: "a b" is not a host name`,
		"listen: here":            `trtllm.cluster.listen: "here" is not host:port, such as 127.0.0.1:8080`,
		"token: a, token_file: b": "trtllm.cluster.token: give token or token_file, not both",
	} {
		if _, err := Parse("f.yaml", []byte("trtllm:\n  cluster: {"+text+"}\n"), nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"uri: http://o:8000":                          "no worker can register",
		"uri: http://o:8000, allow: [10.0.0.0/8]":     "",
		"uri: http://o:8000, listen: '10.0.0.1:8001'": "",
		"uri: http://o:8000, token: x":                "",
		"uri: etcd://o:2379":                          "",
		"uri: etcd://o:2379, allow: [10.0.0.0/8]":     "do nothing without a uri",
	} {
		c, err := Parse("f.yaml", []byte("trtllm: {cluster: {"+text+"}}\nendpoints: [a:1]\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.Warnings(), "; "); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: warned %q, want %q", text, got, want)
		}
	}
}
