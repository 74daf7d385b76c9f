package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/warmpath/warmpath/route/shadow"
)

// fakeShadows have found something.
type fakeShadows struct{}

func (fakeShadows) Told() (r shadow.Report, skipped, dropped uint64, spent time.Duration) {
	r.Acting = shadow.World{Turns: 4, PromptTokens: 400, CachedTokens: 300, TTFTMs: 500}
	r.Shadows = []shadow.PolicyReport{{
		Policy: "session", Apart: shadow.World{Turns: 4, PromptTokens: 400, CachedTokens: 200, TTFTMs: 2000},
		Here: shadow.Step{
			Decisions: 5, Differs: 2, Priced: 2, Cheaper: 1, SavesMs: 100, LosesMs: 400, CostMs: 300, TTFTMs: 250,
		},
		Why: []shadow.Reason{{Reason: "session", Differs: 2}},
	}}
	return r, 7, 3, 1500 * time.Millisecond
}

func TestShadowsAreCounted(t *testing.T) {
	m := New(Config{})
	m.WatchShadows(fakeShadows{})
	want := `
# HELP warmpath_shadow_cost_seconds_total Estimated time that differing choices would have saved (direction saved) or cost in addition (direction lost)
# TYPE warmpath_shadow_cost_seconds_total counter
warmpath_shadow_cost_seconds_total{direction="lost",policy="session"} 0.4
warmpath_shadow_cost_seconds_total{direction="saved",policy="session"} 0.1
# HELP warmpath_shadow_decisions_total Decisions evaluated by a shadow policy; choice is same or differs
# TYPE warmpath_shadow_decisions_total counter
warmpath_shadow_decisions_total{choice="differs",policy="session"} 2
warmpath_shadow_decisions_total{choice="same",policy="session"} 3
# HELP warmpath_shadow_differs_total Choices of a shadow that differ from the acting policy's, by the shadow's reason
# TYPE warmpath_shadow_differs_total counter
warmpath_shadow_differs_total{policy="session",reason="session"} 2
# HELP warmpath_shadow_skipped_total Decisions not evaluated by shadows: why is budget or queue
# TYPE warmpath_shadow_skipped_total counter
warmpath_shadow_skipped_total{why="budget"} 7
warmpath_shadow_skipped_total{why="queue"} 3
# HELP warmpath_shadow_ttft_seconds_total Total predicted time to first token of these
# TYPE warmpath_shadow_ttft_seconds_total counter
warmpath_shadow_ttft_seconds_total{policy="acting"} 0.5
warmpath_shadow_ttft_seconds_total{policy="session"} 2
`
	err := testutil.GatherAndCompare(m, strings.NewReader(want), "warmpath_shadow_cost_seconds_total",
		"warmpath_shadow_decisions_total",
		"warmpath_shadow_differs_total", "warmpath_shadow_skipped_total", "warmpath_shadow_ttft_seconds_total")
	if err != nil {
		t.Error(err)
	}
}
