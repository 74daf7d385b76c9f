package policy

import (
	"math"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/policy/basic"
	"github.com/warmpath/warmpath/policy/rivals"
	"github.com/warmpath/warmpath/policy/trtllm"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		config Config
		want   []string // parts of the error; none for a valid configuration
	}{
		{"nothing given", Config{}, nil},
		{"each option given", Config{Name: "consistent_hash", ConsistentHash: basic.ConsistentHashConfig{
			LoadFactor: 1,
		}, Session: SessionConfig{Fallback: "rendezvous"}}, nil},
		{
			"typing error",
			Config{Name: "leest_token"},
			[]string{
				`name is "leest_token"`, `did you mean "least_tokens"?`,
				"consistent_hash, least_requests, least_tokens, least_ttft, power_of_two, random, rendezvous, " +
					"round_robin, session, and rules of other routers such as smg.cache_aware",
			},
		},
		{"typing error in a rival", Config{Name: "smg.cache-awre"}, []string{`did you mean "smg.cache_aware"?`}},
		{
			"objective below zero",
			Config{DualMap: rivals.DualMapConfig{SLOMs: -1}},
			[]string{"dualmap.slo_ms is -1, must be above 0"},
		},
		{"dashes", Config{Name: "Round-Robin"}, []string{`did you mean "round_robin"?`}},
		{
			"factor below one",
			Config{ConsistentHash: basic.ConsistentHashConfig{LoadFactor: 0.9}},
			[]string{"load_factor is 0.9, must be 1 or more"},
		},
		{
			"factor not a number",
			Config{ConsistentHash: basic.ConsistentHashConfig{LoadFactor: math.NaN()}},
			[]string{"load_factor is NaN"},
		},
		{
			"factor without end",
			Config{ConsistentHash: basic.ConsistentHashConfig{LoadFactor: math.Inf(1)}},
			[]string{"load_factor is +Inf"},
		},
		{
			"session falls back to itself",
			Config{Session: SessionConfig{Fallback: "session"}},
			[]string{`session.fallback is "session"`, "rendezvous, round_robin"},
		},
		{
			"a weight that is not a number", kvOptions(trtllm.KVCacheAwareConfig{LoadWeight: new(math.NaN())}),
			[]string{"trtllm.kv_cache_aware.load_weight is NaN"},
		},
		{
			"a weight below zero", kvOptions(trtllm.KVCacheAwareConfig{LoadWeight: new(-0.1)}),
			[]string{"load_weight is -0.1, must be 0 or more"},
		},
		{"no weight is fine", kvOptions(trtllm.KVCacheAwareConfig{LoadWeight: new(0.0), LoadCap: math.Inf(1)}), nil},
		{
			"a cap that is not a number", kvOptions(trtllm.KVCacheAwareConfig{LoadCap: math.NaN()}),
			[]string{"load_cap is NaN"},
		},
		{
			"negative sizes", kvOptions(trtllm.KVCacheAwareConfig{MaxBatchSize: -1, TokensPerBlock: -32}),
			[]string{"max_batch_size is -1, must be between 1", "kv_cache_aware.tokens_per_block is -32"},
		},
		{
			"unknown score", kvOptions(trtllm.KVCacheAwareConfig{Score: "block"}),
			[]string{`score is "block"; did you mean "blocks"?`},
		},
		{
			"unknown affinity", kvOptions(trtllm.KVCacheAwareConfig{ContentAffinity: "yes"}),
			[]string{"valid: auto, on, messages, off"},
		},
		{
			"two names that differ",
			kvOptions(trtllm.KVCacheAwareConfig{TrackRoutedBlocks: new(true), BackfillBlockHashesOnFinish: new(false)}),
			[]string{"are two names of one option and differ"},
		},
		{
			"threshold above one", convOptions(trtllm.ConversationConfig{MatchThreshold: new(1.01)}),
			[]string{"match_threshold is 1.01, must be between 0 and 1"},
		},
		{
			"threshold not a number", convOptions(trtllm.ConversationConfig{MatchThreshold: new(math.NaN())}),
			[]string{"match_threshold is NaN"},
		},
		{
			"negative counts",
			convOptions(trtllm.ConversationConfig{MaxSessions: -1, HashSkipCount: -2, TokensPerBlock: -3}),
			[]string{"max_sessions is -1", "hash_skip_count is -2", "conversation.tokens_per_block is -3"},
		},
		{
			"all at once",
			Config{Name: "x", ConsistentHash: basic.ConsistentHashConfig{LoadFactor: -1}, Session: SessionConfig{
				Fallback: "y",
			}},
			[]string{`name is "x"`, "load_factor is -1", `session.fallback is "y"`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.config.Validate()
			f, newErr := New(tt.config)
			if (err == nil) != (newErr == nil) || (f == nil) != (newErr != nil) {
				t.Fatalf("Validate says %v, New says %v", err, newErr)
			}
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("got no error")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in: %v", part, err)
				}
			}
		})
	}
}

func TestFallbackListLeavesSessionOut(t *testing.T) {
	err := Config{Session: SessionConfig{Fallback: "session"}}.Validate()
	if err == nil || !strings.Contains(err.Error(), "round_robin, and rules of other routers") {
		t.Errorf("got %v", err)
	}
}

func TestReadsContent(t *testing.T) {
	for name, want := range map[string]bool{
		"least_ttft": true, "session": false, "round_robin": false, "dynamo.kv": true, "smg.cache_aware": true,
		"vllmrouter.sticky_least_loaded": false,
	} {
		if got := ReadsContent(Config{Name: name}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !ReadsContent(Config{Name: "session", Session: SessionConfig{Fallback: "lmetric"}}) {
		t.Error("session that falls back to lmetric reads nothing")
	}
}

func kvOptions(o trtllm.KVCacheAwareConfig) Config {
	return Config{TRTLLM: trtllm.Config{KVCacheAware: o}}
}

func convOptions(o trtllm.ConversationConfig) Config {
	return Config{TRTLLM: trtllm.Config{Conversation: o}}
}
