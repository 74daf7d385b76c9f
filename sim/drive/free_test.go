package drive_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/figures"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// TestFreeRolesComeAbout: on engines without roles that may compute prompts for each other, documents rarely interrupt
// chats, which they often do without splitting, and no first token is later. Some engines then answer far more than
// others.
func TestFreeRolesComeAbout(t *testing.T) {
	g, err := trace.ParseGenerator([]string{
		"conversations=800", "turns=2", "system=1000", "prefixes=20", "user=500", "answer=300", "think=5s", "long=0.5",
		"long_tokens=16000",
	})
	if err != nil {
		t.Fatal(err)
	}
	engine := engine.Config{}
	for _, p := range rig.Presets() {
		if p.Name == "reference" {
			engine = p.Engine
		}
	}
	place, err := policy.New(policy.Config{Name: "least_ttft"}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	play := func(when fleet.SplitWhen) (figures.Figures, *drive.Outcome) {
		r := drive.Replay{
			Trace: g.Trace(3), Fleet: rig.Even(8, engine), Policy: place, Content: true, Load: 0.5, Seed: 3,
			Disaggregation: route.Disaggregation{When: when},
		}
		o, err := r.Run()
		if err != nil {
			t.Fatal(err)
		}
		for _, router := range o.Routers {
			if s := router.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
				t.Errorf("%s, at the end: %+v", when, s)
			}
		}
		return figures.Of(&r, o, figures.Objective{TTFT: 5 * time.Second}), o
	}
	all, _ := play(fleet.WhenTime) // without roles that splits nothing
	free, o := play(fleet.WhenFree)
	if all.Split != nil || free.Split == nil || free.Split.Share < 0.1 || free.Split.Share > 0.9 {
		t.Fatalf("split: %+v and %+v", all.Split, free.Split)
	}
	if free.Gap.P99 > all.Gap.P99/2 || free.TTFT.P90 > 1.03*all.TTFT.P90 || free.E2E.Mean > all.E2E.Mean {
		t.Errorf(
			"p99 between tokens %.1f ms, %.1f aggregated; p90 to the first token %.0f, %.0f; to the last %.0f, %.0f",
			free.Gap.P99, all.Gap.P99, free.TTFT.P90, all.TTFT.P90, free.E2E.Mean, all.E2E.Mean)
	}
	answers := make([]int, len(o.Engines))
	for i := range o.Turns {
		answers[o.Turns[i].Endpoint]++
	}
	most, fewest := answers[0], answers[0]
	for _, n := range answers {
		most, fewest = max(most, n), min(fewest, n)
	}
	if most < 3*fewest {
		t.Errorf("answers by engine: %v", answers)
	}
}
