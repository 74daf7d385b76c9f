package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/shadow"
	shadowcore "github.com/warmpath/warmpath/route/shadow"
)

// shadowReport asks until all decisions are judged.
func (r *rig) shadowReport(t *testing.T, decisions uint64) shadow.Report {
	t.Helper()
	var got shadow.Report
	for range aWhile / (10 * time.Millisecond) {
		res, err := http.Get(r.adminURL + "/admin/shadow")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%d %s: %v", res.StatusCode, body, err)
		}
		if got.Decisions+got.Skipped+got.Dropped >= decisions {
			return got
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d decisions of %d are judged", got.Decisions, decisions)
	return got
}

// TestShadowsOfLiveTraffic: round robin decides, a policy that keeps conversations together looks on. What it says it
// would have done is told by the admin API, the command and the metrics.
func TestShadowsOfLiveTraffic(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4, func(c *config.Config) {
		c.Policy.Name, c.Shadow.Policies, c.Shadow.Budget = "round_robin", []string{"round_robin", "least_ttft"}, 1
	})
	s := r.play(quickWorkload())
	if s.Failed != 0 {
		t.Fatalf("%d failed: %s", s.Failed, s.LastError)
	}
	got := r.shadowReport(t, uint64(s.Requests))
	self, warm := got.Shadows[0], got.Shadows[1]
	if self.Here.Differs != 0 {
		t.Errorf("the acting policy differs from itself: %+v", self.Here)
	}
	if warm.Here.Differs == 0 || warm.Here.SavesMs <= warm.Here.LosesMs {
		t.Errorf("least_ttft in the place of round_robin would not save: %+v", warm.Here)
	}
	cached := func(w *shadowcore.World) float64 { return float64(w.CachedTokens) / float64(w.PromptTokens) }
	if got.Acting.Turns == 0 || cached(&warm.Apart) < cached(&got.Acting)+0.05 {
		t.Errorf("cached %.2f for least_ttft, %.2f for round_robin, which decides",
			cached(&warm.Apart), cached(&got.Acting))
	}
	code, out, log := r.explain(t, "--shadow")
	if code != exitOK || !strings.Contains(out, "round_robin (decides)") ||
		!strings.Contains(out, fmt.Sprintf("%d decisions were shown to 2 other policies", got.Decisions)) {
		t.Errorf("exit code %d, %s\n%s", code, log, out)
	}
	t.Log("\n" + out)
	res, err := http.Get(r.adminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body),
		`warmpath_shadow_decisions_total{choice="differs",policy="least_ttft"}`) {
		t.Error("the metrics do not tell of shadows")
	}
}

// TestShadowsChangeNothing: a policy that does not read prompts decides on the same figures with shadows that do beside
// it.
func TestShadowsChangeNothing(t *testing.T) {
	for _, shadows := range [][]string{nil, {"least_ttft", "smg.cache_aware"}} {
		r := newRig(t, 2, func(c *config.Config) {
			c.Policy.Name, c.Shadow.Policies, c.ByContent = "least_tokens", shadows, false
		})
		// other conversations with the same prompt: only a reader of prompts expects to find it cached
		for i := range 4 {
			r.ask(t, fmt.Sprint("r", i), "same", 200)
		}
		for i := range 4 {
			r.ask(t, fmt.Sprint("other", i), "same", 200, "X-Session-Id", fmt.Sprint("session", i))
		}
		_, out, _ := r.explain(t, "--last", "4", "--json")
		lines := 0
		for line := range strings.Lines(out) {
			lines++
			var d struct {
				Predicted struct {
					CachedTokens int `json:"cached_tokens"`
				}
			}
			if err := json.Unmarshal([]byte(line), &d); err != nil || d.Predicted.CachedTokens != 0 {
				t.Errorf(
					"shadows %v: %d cached tokens predicted (%v): the books know what only shadows were to be told",
					shadows, d.Predicted.CachedTokens, err)
			}
		}
		if lines != 4 {
			t.Errorf("shadows %v: %d decisions are told of", shadows, lines)
		}
	}
}

// TestNoShadows says what to do.
func TestNoShadows(t *testing.T) {
	r := newRig(t, 1, nil)
	code, _, log := r.explain(t, "--shadow")
	if code == exitOK || !strings.Contains(log, "serve --shadow") {
		t.Errorf("exit code %d: %s", code, log)
	}
}
