package config_test

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/policy"
)

// TestPolicyOptions: each policy has the options of its family, and each of them can be set from a text.
func TestPolicyOptions(t *testing.T) {
	for name, want := range map[string]string{
		"rank.first_turn":       "rank.kv_cache_routing_match_rate_threshold",
		"rank.default":          "rank.max_num_active_requests",
		"trtllm.conversation":   "trtllm.conversation.max_sessions",
		"trtllm.kv_cache_aware": "trtllm.kv_cache_aware.tokens_per_block",
		"session":               "session.fallback",
		"dualmap":               "dualmap.slo_ms",
		"consistent_hash":       "consistent_hash.load_factor",
		"trtllm.round_robin":    "",
		"smg.cache_aware":       "",
		"no such policy":        "",
	} {
		options := config.PolicyOptions(name)
		if want == "" && len(options) > 0 || want != "" && !slices.Contains(options, want) {
			t.Errorf("%s has the options %v, want %q among them", name, options, want)
		}
	}
	for _, name := range policy.Names() {
		for _, option := range config.PolicyOptions(name) {
			c := policy.Config{Name: name}.WithDefaults()
			bad, good := config.SetPolicyOption(&c, option, "\x00"), error(nil)
			for _, text := range []string{"1", "true", "5s", "round_robin"} {
				if good = config.SetPolicyOption(&c, option, text); good == nil {
					break
				}
			}
			if good != nil {
				t.Errorf("%s: %v (and %v)", option, good, bad)
			}
		}
	}
	var c policy.Config
	if err := config.SetPolicyOption(&c, "rank.no_such", "1"); err == nil ||
		err.Error() != `no setting "rank.no_such"` {
		t.Errorf("%v", err)
	}
	if err := config.SetPolicyOption(&c, "name.deeper", "1"); err == nil {
		t.Error("a text has no settings below it")
	}
}
