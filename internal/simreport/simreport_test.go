package simreport

import (
	"testing"

	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	simrig "github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// TestTellsApart: policies beyond the colours are drawn in another way, and long names are cut.
func TestTellsApart(t *testing.T) {
	for _, c := range [][2]string{{"e12", "e12"}, {"thirteen-long", "thirteen-long"}, {"http://host.example:8000", "http:/…e:8000"}} {
		if got := short(c[0], 13); got != c[1] {
			t.Errorf("short(%q) is %q, want %q", c[0], got, c[1])
		}
	}
	seen := map[string]bool{}
	for i := range 24 {
		border, strokes := dash(i)
		seen[colour(i)+border+strokes] = true
	}
	if len(seen) != 24 {
		t.Errorf("24 policies are drawn in %d ways", len(seen))
	}
}

// TestWorkWhereItIsDone: where requests are split, prefillers are shown to compute prompts and decoders answers, as much as the figures say.
func TestWorkWhereItIsDone(t *testing.T) {
	g := trace.DefaultGenerator()
	g.Conversations = 30
	choose, err := policy.New(policy.Config{Name: policy.Default})
	if err != nil {
		t.Fatal(err)
	}
	s := &simrun.Run{Replay: drive.Replay{
		Disaggregation: route.Disaggregation{When: route.WhenAlways}, Transfer: simrig.DefaultTransfer(), Trace: g.Trace(1),
		Fleet: simrig.Split(1, 2, engine.DefaultConfig()), Policy: choose, PolicyName: policy.Default, Content: true, Load: 0.5, Seed: 1, Routers: 1,
	}}
	if err := s.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
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
		t.Errorf("the prefiller is shown with %.0f tokens and the decoders with %.0f, want %.0f and %.0f", p, d, prompts, answers)
	}
}
