package rank

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/policytest"
)

// PR 13198: cached tokens count when the largest cached share at an eligible rank exceeds the threshold, strictly; with
// a threshold of 0 any match counts.
func TestGateIsTold(t *testing.T) {
	for _, tt := range []struct {
		name      string
		policy    string
		threshold float64
		cached    [2]int // of a prompt of 1,000 tokens
		busy      bool   // the second rank is full
		newID     bool
		want      pick.CacheGate
	}{
		{
			"above", "rank.kv_cache_aware", 0.1,
			[2]int{101, 40},
			false, false,
			pick.CacheGate{Asked: true, Open: true, Match: 101, Threshold: 0.1},
		},
		{
			"at the threshold", "rank.kv_cache_aware", 0.1,
			[2]int{100, 40},
			false, false,
			pick.CacheGate{Asked: true, Match: 100, Threshold: 0.1},
		},
		{
			"any match", "rank.kv_cache_aware", 0,
			[2]int{0, 1},
			false, false,
			pick.CacheGate{Asked: true, Open: true, Match: 1},
		},
		{"nothing cached", "rank.kv_cache_aware", 0, [2]int{}, false, false, pick.CacheGate{Asked: true}},
		{
			"of eligible ranks only", "rank.kv_cache_aware", 0.1,
			[2]int{50, 900},
			true, false,
			pick.CacheGate{Asked: true, Match: 50, Threshold: 0.1},
		},
		{
			"a later turn", "rank.first_turn", 0.1,
			[2]int{500, 0},
			false, false,
			pick.CacheGate{Asked: true, Open: true, Match: 500, Threshold: 0.1},
		},
		{"a first turn is not weighed", "rank.first_turn", 0.1, [2]int{500, 0}, false, true, pick.CacheGate{}},
		{"no gate", "rank.default", 0.1, [2]int{500, 0}, false, false, pick.CacheGate{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := rankPolicyOf(t, tt.policy, func(c *Config) { c.Threshold, c.MaxActive = tt.threshold, 4 })
			v := policytest.View(policytest.Same(2), 1)
			v.PromptTokens, v.NewID = 1000, tt.newID
			for i := range v.Candidates {
				v.Candidates[i].CachedTokens = tt.cached[i]
			}
			if tt.busy {
				v.Candidates[1].Load = fleet.Load{Requests: 4}
			}
			policytest.Place(p, v, &fleet.Request{ID: "r"})
			if v.CacheGate != tt.want {
				t.Errorf("%+v, want %+v", v.CacheGate, tt.want)
			}
		})
	}
}
