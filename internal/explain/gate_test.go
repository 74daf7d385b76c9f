package explain

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestTellsTheGate: under the names of TensorRT-LLM's rank router, in JSON and for people, and only of decisions that
// had one.
func TestTellsTheGate(t *testing.T) {
	for _, tt := range []struct {
		gate       pick.CacheGate
		json, text string
	}{
		{pick.CacheGate{}, "", ""},
		{
			pick.CacheGate{Asked: true, Open: true, Match: 960, Threshold: 0.1},
			`{"cache_affinity_active":true,"max_match_for_req":960,"match_rate":0.96,"threshold":0.1}`,
			"What is cached counted: the best match is 960 tokens (96 % of the prompt), above the threshold of 10 %.",
		},
		{
			pick.CacheGate{Asked: true, Match: 50, Threshold: 0.1},
			`{"cache_affinity_active":false,"max_match_for_req":50,"match_rate":0.05,"threshold":0.1}`,
			"What is cached did not count: the best match is 50 tokens (5 % of the prompt), " +
				"not above the threshold of 10 %.",
		},
	} {
		r := NewRing(Config{})
		r.Listener().Entry(told("r1", func(x *route.Ended) { x.Decision.CacheGate = tt.gate }))
		d := get(t, r, "request=r1").Decisions[0]
		b, err := json.Marshal(d.Gate)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimPrefix(string(b), "null"); got != tt.json {
			t.Errorf("%s, want %s", got, tt.json)
		}
		if tt.text == "" && strings.Contains(d.Why, "cached counted") || !strings.Contains(d.Why, tt.text) {
			t.Errorf("%q, want %q in it", d.Why, tt.text)
		}
	}
}
