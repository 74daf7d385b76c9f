package admin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

// TestAliases: each model of an alias has its own requests, failures, times, hit rate and tokens, and what passed it
// over; what is no alias's any more is forgotten.
func TestAliases(t *testing.T) {
	tally, start := NewTally(), time.Unix(1000, 0)
	hear := tally.Listener().Served
	asked := func(alias, model string, status, cached int, ttft time.Duration, passed ...route.PassedOver) {
		s := &live.Served{
			Status: status, Outcome: fleet.OK, Started: start, Ended: start.Add(time.Second), Stream: true,
			Usage:    fleet.Usage{PromptTokens: 100, CachedTokens: cached, CachedKnown: true, OutputTokens: 7},
			Decision: route.Decision{Pool: alias, Model: model, Endpoint: fleet.Endpoint{Name: "a"}, Passed: passed},
		}
		if ttft > 0 {
			s.FirstByte = start.Add(ttft)
		}
		hear(s)
	}
	for range 3 {
		asked("fast", "old", 200, 90, 100*time.Millisecond)
	}
	asked("fast", "new", 200, 10, 300*time.Millisecond)
	asked("fast", "new", 502, 0, 0)
	asked("old", "old", 200, 0, time.Second) // by its own name
	asked("*", "old", 200, 0, time.Second)
	asked("order", "small", 200, 0, time.Second, route.PassedOver{Model: "big", Why: route.PassedFull})
	models := []fleet.ModelStatus{
		{ID: "fast", Alias: []string{"old", "new"}, Shares: []float64{3, 1}},
		{ID: "one", Alias: []string{"old"}},
		{ID: "old"},
		{ID: "order", Alias: []string{"big", "small"}, Overflow: []time.Duration{10 * time.Second, 0}},
	}
	type row struct {
		Alias, Model    string
		Gets            float64
		Requests        uint64
		Failed          uint64
		TTFT, Hit       float64
		Prompt, Answers int64
		Passed          uint64
	}
	rows := func() (out []row) {
		for _, a := range tally.aliases(models) {
			for _, m := range a.Models {
				r := row{Alias: a.Alias, Model: m.Model, Passed: m.Passed}
				switch {
				case m.Share != nil:
					r.Gets = *m.Share
				case m.Overflow != nil:
					r.Gets = *m.Overflow
				}
				if s := m.Served; s != nil {
					r.Requests, r.Failed, r.Prompt, r.Answers = s.Requests, s.Failed, s.PromptTokens, s.OutputTokens
					if s.TTFTP50 != nil {
						r.TTFT = *s.TTFTP50
					}
					if s.HitRate != nil {
						r.Hit = *s.HitRate
					}
				}
				out = append(out, r)
			}
		}
		return out
	}
	want := []row{
		{"fast", "old", 0.75, 3, 0, 0.1, 0.9, 300, 21, 0},
		{"fast", "new", 0.25, 2, 1, 0.3, 0.05, 200, 14, 0},
		{"order", "big", 10, 0, 0, 0, 0, 0, 0, 1},
		{"order", "small", 0, 1, 0, 1, 0, 100, 7, 0},
	}
	if got := rows(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for i := range 2 * maxAliased {
		asked("fast", fmt.Sprint("model", i), 200, 0, 0)
	}
	if n := len(tally.models); n != maxAliased {
		t.Errorf("%d pairs are counted", n)
	}
	if rows(); len(tally.models) != len(want) {
		t.Errorf("%d pairs are left, want %d", len(tally.models), len(want))
	}
}

// TestAliasesAreTold: the figures are at GET /admin/stats.
func TestAliasesAreTold(t *testing.T) {
	tally := NewTally()
	h := handler(&fakeFleet{}, func(c *Config) {
		c.Tally, c.Aliases = tally, map[string][]string{"fast": {"qwen", "new"}}
	})
	tally.Listener().Served(&live.Served{
		Status: 200, Outcome: fleet.OK, Decision: route.Decision{Pool: "fast", Model: "new"},
	})
	var got struct{ Aliases []aliasView }
	if err := json.Unmarshal(call(h, "GET", "/admin/stats", "").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if a := got.Aliases; len(a) != 1 || len(a[0].Models) != 2 || a[0].Models[1].Served == nil ||
		a[0].Models[1].Served.Requests != 1 || *a[0].Models[0].Share != 0.95 {
		t.Errorf("%+v", got)
	}
}
