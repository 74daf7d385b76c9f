package migrate

import (
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/policy"
)

// TestRolesHaveTheirOwnOptions: TensorRT-LLM makes a router for each role, each with its own options and otherwise the
// published defaults.
func TestRolesHaveTheirOwnOptions(t *testing.T) {
	type router struct {
		name      string
		threshold float64 // of conversation
		sessions  int
		tokens    bool    // of load_balancing
		cap       float64 // of kv_cache_aware
	}
	for _, tt := range []struct {
		name, context, generation string
		prefill, decode           router
		own                       bool // the decode side states its options
	}{
		{
			"two that differ", "{type: conversation, match_threshold: 0.5}",
			"{type: conversation, match_threshold: 0.9, max_sessions: 7}",
			router{name: "trtllm.conversation", threshold: 0.5, sessions: 100_000},
			router{name: "trtllm.conversation", threshold: 0.9, sessions: 7},
			true,
		},
		{
			"the second by default", "{type: conversation, match_threshold: 0.5}", "{type: conversation}",
			router{name: "trtllm.conversation", threshold: 0.5, sessions: 100_000},
			router{name: "trtllm.conversation", threshold: 0.75, sessions: 100_000},
			true,
		},
		{
			"the first by default", "{type: load_balancing}", "{type: load_balancing, use_tokens: true}",
			router{name: "trtllm.load_balancing"},
			router{name: "trtllm.load_balancing", tokens: true},
			true,
		},
		{
			"two that are alike", "{type: kv_cache_aware, load_cap: 2}", "{type: kv_cache_aware, load_cap: 2}",
			router{name: "trtllm.kv_cache_aware", cap: 2},
			router{name: "trtllm.kv_cache_aware", cap: 2},
			false,
		},
		{
			"two types", "{type: conversation, max_sessions: 7}", "{type: kv_cache_aware, load_cap: 2}",
			router{name: "trtllm.conversation", threshold: 0.75, sessions: 7},
			router{name: "trtllm.kv_cache_aware", cap: 2},
			false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := File("trtllm", "f", []byte("context_servers: {urls: ['a:1'], router: "+tt.context+
				"}\ngeneration_servers: {urls: ['b:1'], router: "+tt.generation+"}\n"))
			if err != nil || len(got.Missing) > 0 {
				t.Fatalf("%v, listed %q", err, texts(got.Missing))
			}
			cfg, err := config.Parse("f", got.YAML, nil)
			if err != nil {
				t.Fatalf("%v in\n%s", err, got.YAML)
			}
			if own := cfg.Disaggregation.DecodeTRTLLM != nil; own != tt.own {
				t.Errorf("options of its own: %t, want %t\n%s", own, tt.own, got.YAML)
			}
			for _, side := range []struct {
				name string
				got  policy.Config
				want router
			}{
				{"prefill", cfg.PolicyNamed(cfg.Disaggregation.PrefillPolicy), tt.prefill},
				{"decode", cfg.DecodePolicyConfig(), tt.decode},
			} {
				p := side.got
				is := router{name: p.Name}
				switch p.Name {
				case "trtllm.conversation":
					is.threshold, is.sessions = 0.75, p.TRTLLM.Conversation.MaxSessions
					if m := p.TRTLLM.Conversation.MatchThreshold; m != nil {
						is.threshold = *m
					}
				case "trtllm.load_balancing":
					is.tokens = p.TRTLLM.LoadBalancing.UseTokens
				case "trtllm.kv_cache_aware":
					is.cap = p.TRTLLM.KVCacheAware.LoadCap
				}
				if is != side.want {
					t.Errorf("%s: %+v, want %+v\n%s", side.name, is, side.want, got.YAML)
				}
			}
		})
	}
}
