package simreport

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	simrig "github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// TestTellsApart: policies beyond the colours are drawn in another way.
func TestTellsApart(t *testing.T) {
	seen := map[string]bool{}
	for i := range 24 {
		seen[fmt.Sprint(colour(i), dashes(i))] = true
	}
	if len(seen) != 24 {
		t.Errorf("24 policies are drawn in %d ways", len(seen))
	}
}

// played is a fleet of the given endpoints with a drawn trace played to its end.
func played(t *testing.T, f simrig.Fleet, with func(*drive.Replay)) *simrun.Run {
	t.Helper()
	g := trace.DefaultGenerator()
	g.Conversations = 30
	choose, err := policy.New(policy.Config{Name: policy.Default})
	if err != nil {
		t.Fatal(err)
	}
	s := &simrun.Run{Replay: drive.Replay{
		Trace: g.Trace(1), Fleet: f, Policy: choose, Content: true, Load: 0.5, Seed: 1, Routers: 1,
	}}
	if with != nil {
		with(&s.Replay)
	}
	if err := s.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPageRunsItsOwnScriptOnly: what stands in the page is what its policy allows, and names from outside end neither
// a script nor a tag.
func TestPageRunsItsOwnScriptOnly(t *testing.T) {
	s := played(t, simrig.Even(2, engine.DefaultConfig()), nil)
	s.Label = "</script><b>\xff"
	s.Replay.Fleet.Endpoints[0].Name = "</script><script>alert(1)</script>"
	raw, err := HTML([]*simrun.Run{s})
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	texts := func(open, end string) (out []string) {
		for rest := page; ; {
			_, after, ok := strings.Cut(rest, open)
			if !ok {
				return out
			}
			text, more, _ := strings.Cut(after, end)
			out, rest = append(out, text), more
		}
	}
	styles, scripts := texts("<style>", "</style>"), texts("<script>", "</script>")
	if len(styles) != 1 || len(scripts) != 1 || strings.Count(page, "<script") != 2 ||
		strings.Contains(page, " style=") {
		t.Fatalf("%d styles, %d scripts, %d with data", len(styles), len(scripts), strings.Count(page, "<script"))
	}
	for _, want := range []string{"style-src '" + digest(styles[0]) + "'", "script-src '" + digest(scripts[0]) + "'"} {
		if !strings.Contains(html.UnescapeString(page), want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
	if !strings.Contains(scripts[0], "Copyright (c) 2022 Leon Sorokin") {
		t.Error("the page lacks the licence of the library in it")
	}
	var c charts
	data := texts(`<script id="charts" type="application/json">`, "</script>")
	if err := json.Unmarshal([]byte(data[0]), &c); err != nil {
		t.Fatal(err)
	}
	if c.Endpoints[0] != s.Replay.Fleet.Endpoints[0].Name || c.Runs[0].Name != policy.Default+" [</script><b>\ufffd]" {
		t.Errorf("the charts are of %q on %q", c.Runs[0].Name, c.Endpoints)
	}
}

// TestCharts: what is drawn agrees with the figures, and every row of it is as long as its axis.
func TestCharts(t *testing.T) {
	s := played(t, simrig.Even(3, engine.DefaultConfig()), nil)
	raw, err := chartsOf([]*simrun.Run{s}, s.Outcome.Span+1)
	var c charts
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := c.Runs[0]
	have := [...]int{len(r.Within), len(r.Hits), len(r.Work), len(r.Work[0])}
	if want := [...]int{len(c.TTFT), len(c.Time), len(c.Endpoints), len(c.Time)}; have != want {
		t.Fatalf("the rows have lengths of %v, want %v", have, want)
	}
	if !slices.IsSorted(c.TTFT) || !slices.IsSorted(r.Within) || r.Within[grain] != 100 {
		t.Errorf("the distribution does not rise to all: %v", r.Within)
	}
	for _, q := range []struct{ share, ms float64 }{{50, s.Figures.TTFT.P50}, {90, s.Figures.TTFT.P90}} {
		at := slices.IndexFunc(c.TTFT, func(ms float64) bool { return ms >= q.ms })
		if r.Within[at] < q.share || at > 1 && r.Within[at-2] > q.share {
			t.Errorf("%v %% have their first token within %.0f ms, the chart says %v %%", q.share, q.ms, r.Within[at])
		}
	}
	most := 0.0
	for _, row := range r.Work {
		most = max(most, slices.Max(row))
	}
	if most != c.Most {
		t.Errorf("the darkest is %v, want %v", c.Most, most)
	}
}

// TestChartsOfLittle: nothing that a browser could not draw comes of a single turn.
func TestChartsOfLittle(t *testing.T) {
	s := played(t, simrig.Even(1, engine.DefaultConfig()), nil)
	for n := range 2 {
		s.Outcome.Turns = s.Outcome.Turns[:1-n]
		at := scale([]*simrun.Run{s})
		if !(at[0] > 0) || !(at[grain] > at[0]) || math.IsInf(at[grain], 0) || horizon([]*simrun.Run{s}) < time.Second {
			t.Errorf("%d turns: from %v to %v ms", 1-n, at[0], at[grain])
		}
	}
}

// TestWorkWhereItIsDone: where requests are split, prefillers are shown to compute prompts and decoders answers, as
// much as the figures say.
func TestWorkWhereItIsDone(t *testing.T) {
	s := played(t, simrig.Split(1, 2, engine.DefaultConfig()), func(r *drive.Replay) {
		r.Disaggregation, r.Transfer = route.Disaggregation{When: fleet.WhenAlways}, simrig.DefaultTransfer()
	})
	var prompts, answers float64
	for i := range s.Outcome.Turns {
		p := &s.Outcome.Turns[i]
		turn := &s.Replay.Trace.Turns[p.Turn]
		if p.Failed || !p.Why.Splits() {
			t.Fatalf("a turn that was not split: %+v", p)
		}
		prompts, answers = prompts+float64(turn.Prompt-p.Cached), answers+float64(turn.Output)
	}
	work := make([]float64, len(s.Replay.Fleet.Endpoints))
	for e, row := range workOverTime(s, s.Outcome.Span+1) {
		for _, w := range row {
			work[e] += w
		}
	}
	if p, d := work[0], work[1]+work[2]; p != prompts || d != answers || prompts == answers {
		t.Errorf("the prefiller is shown with %.0f tokens and the decoders with %.0f, want %.0f and %.0f",
			p, d, prompts, answers)
	}
}

// TestConversationsAreShown: with a number of conversations at one time the tables say how whole ones went.
func TestConversationsAreShown(t *testing.T) {
	for clients, want := range map[int]bool{0: false, 3: true} {
		var out strings.Builder
		Tables(&out, []*simrun.Run{
			played(t, simrig.Even(2, engine.DefaultConfig()), func(r *drive.Replay) { r.Clients = clients }),
		})
		if got := strings.Contains(out.String(), "ended/h"); got != want {
			t.Errorf("%d clients: conversations shown: %v, want %v", clients, got, want)
		}
	}
}
