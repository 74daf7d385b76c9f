package admin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

func TestTally(t *testing.T) {
	tally, t0 := NewTally(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hear := tally.Listener().Served
	serve := func(endpoint string, status int, u fleet.Usage) {
		o := fleet.OK
		if status >= 500 {
			o = fleet.EngineError
		}
		hear(&live.Served{
			Status: status, Outcome: o, Started: t0, FirstByte: t0.Add(100 * time.Millisecond), Stream: true,
			Usage:    u,
			Decision: route.Decision{Endpoint: fleet.Endpoint{Name: endpoint}, PromptTokens: 50, CachedTokens: 20},
		})
	}
	serve("a", 200, fleet.Usage{PromptTokens: 100, CachedTokens: 75, CachedKnown: true, OutputTokens: 5})
	hear(&live.Served{Status: 200, Outcome: fleet.ClientGone, Started: t0, Decision: route.Decision{
		Endpoint: fleet.Endpoint{Name: "a"},
	}})
	hear(&live.Served{Status: 499, Outcome: fleet.ClientGone, Started: t0, Decision: route.Decision{
		Endpoint: fleet.Endpoint{Name: "a"},
	}})
	serve("a", 502, fleet.Usage{})
	serve("b", 200, fleet.Usage{}) // not reported: 50 - 20 estimated
	serve("gone", 200, fleet.Usage{})
	f := newFleet()
	f.status[1].Endpoint.Name = "b"
	w := call(handler(f, func(c *Config) { c.Tally = tally }), "GET", "/admin/endpoints", "")
	var got struct {
		Endpoints []struct {
			Name   string
			Served heardOf
		}
		Stats struct{ Served heardOf }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	a, b, all := got.Endpoints[0].Served, got.Endpoints[1].Served, got.Stats.Served
	if a.Requests != 4 || a.Failed != 1 || *a.HitRate != .75 || a.WorkTokens != 30 || a.WorkShare != .5 ||
		*a.TTFTP50 != .1 {
		t.Errorf("a: %+v", a)
	}
	if b.Requests != 1 || b.HitRate != nil || b.WorkShare != .5 {
		t.Errorf("b: %+v", b)
	}
	if all.Requests != 6 || all.WorkTokens != 90 || len(tally.one) != 2 {
		t.Errorf("all: %+v, %d endpoints remembered, want 2", all, len(tally.one))
	}
}

func TestTallyIsBounded(t *testing.T) {
	tally := NewTally()
	for i := range maxTallied + 10 {
		tally.served(&live.Served{Decision: route.Decision{Endpoint: fleet.Endpoint{Name: fmt.Sprint(i)}}})
	}
	if len(tally.one) != maxTallied || tally.total().Requests != maxTallied+10 {
		t.Errorf("%d endpoints, %d requests", len(tally.one), tally.total().Requests)
	}
}

func TestPageLoadsNothingAndRunsItsOwnScriptOnly(t *testing.T) {
	w := call(handler(newFleet(), nil), "GET", "/", "")
	body, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	for _, part := range []struct{ name, open, end string }{
		{"style", "<style>", "</style>"}, {"script", "<script>", "</script>"},
	} {
		_, rest, _ := strings.Cut(body, part.open)
		text, _, _ := strings.Cut(rest, part.end)
		if len(text) < 500 || !strings.Contains(policy, part.name+"-src 'sha256-"+digest(text)+"'") {
			t.Errorf("the policy does not allow the %s that is there", part.name)
		}
	}
	if len(body) > 200_000 {
		t.Errorf("the page has %d bytes, more than 200,000", len(body))
	}
	if !strings.Contains(body, "Copyright (c) 2022 Leon Sorokin") {
		t.Error("the page lacks the licence of the library in it")
	}
	// names, not addresses
	own := strings.NewReplacer("https://github.com/leeoniya/uPlot", "", "http://www.w3.org/2000/svg", "").Replace(body)
	for _, s := range []string{"http://", "https://", " src=", "innerHTML", "@import", "url("} {
		if strings.Contains(own, s) {
			t.Errorf("the page has %s", s)
		}
	}
}

// TestTallyOfTwoLegs: the prompt of a request that was split is the prefiller's work, its answer the decoder's, and the
// request is one.
func TestTallyOfTwoLegs(t *testing.T) {
	tally, t0 := NewTally(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := live.Served{
		Status: 200, Outcome: fleet.OK, Started: t0, FirstByte: t0.Add(100 * time.Millisecond), Stream: true,
		Usage:    fleet.Usage{PromptTokens: 100, CachedTokens: 75, CachedKnown: true, OutputTokens: 5},
		Decision: route.Decision{Endpoint: fleet.Endpoint{Name: "d"}, Leg: fleet.LegDecode},
		Prefill:  route.Decision{Endpoint: fleet.Endpoint{Name: "p"}, Leg: fleet.LegPrefill},
	}
	hear := tally.Listener().Served
	hear(&s)
	s.Status, s.Outcome, s.Usage = 500, fleet.EngineError, fleet.Usage{}
	hear(&s)
	got, all := tally.endpoints(nil), tally.total()
	p, d := got["p"], got["d"]
	if p.Requests != 2 || p.Failed != 0 || p.PromptTokens != 100 || p.CachedTokens != 75 || p.OutputTokens != 0 ||
		p.WorkTokens != 25 || p.TTFTP50 != nil {
		t.Errorf("the prefiller: %+v", p)
	}
	if d.Requests != 2 || d.Failed != 1 || d.PromptTokens != 0 || d.OutputTokens != 5 || d.WorkTokens != 5 ||
		d.TTFTP50 == nil {
		t.Errorf("the decoder: %+v", d)
	}
	if all.Requests != 2 || all.Failed != 1 || all.WorkTokens != 30 {
		t.Errorf("all: %+v", all)
	}
}
