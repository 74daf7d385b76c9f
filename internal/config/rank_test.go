package config_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/policy/rank"
)

// TestRankOptions: one option in the file leaves the others at their defaults, a 0 is a 0, and faults have their place.
func TestRankOptions(t *testing.T) {
	c, err := config.Parse("w.yaml", []byte("policy:\n  name: rank.kv_cache_aware\n"+
		"  rank: {kv_cache_routing_match_rate_threshold: 0, kv_cache_routing_account_for_in_transfer: false}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := rank.DefaultConfig()
	want.Threshold, want.InTransfer = 0, false
	if c.Policy.Rank != want {
		t.Errorf("got %+v, want %+v", c.Policy.Rank, want)
	}
	if got := c.Policy.WithDefaults().Rank; got != want {
		t.Errorf("its defaults make %+v of it", got)
	}
	_, err = config.Parse("w.yaml", []byte(`policy:
  rank:
    kv_cache_routing_match_rate_threshold: 1.5
    kv_cache_routing_fair_share_multiplier: 0
    kv_cache_routing_load_balance_weight: .nan
    kv_cache_routing_max_sessions: -1
    kv_cache_routing_new_conv_placement: first
    kv_cache_routing_no_such: 1
`), nil)
	if err == nil {
		t.Fatal("no fault is found")
	}
	for _, line := range []string{
		"w.yaml:3:5: policy.rank.kv_cache_routing_match_rate_threshold: is 1.5, must be between 0 and 1",
		"w.yaml:4:5: policy.rank.kv_cache_routing_fair_share_multiplier: is 0, must be 1 or more",
		"w.yaml:6:5: policy.rank.kv_cache_routing_max_sessions: is -1, must be between 1 and 100000000",
		`w.yaml:7:5: policy.rank.kv_cache_routing_new_conv_placement: is "first", must be round_robin or least_queued`,
		`w.yaml:8:5: unknown key "kv_cache_routing_no_such"`,
		"w.yaml:5",
	} {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("%q is not in\n%v", line, err)
		}
	}
}
