package trace

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestGeneratorIsRepeatable(t *testing.T) {
	g, err := ParseGenerator([]string{"conversations=50", "tenants=3", "prefixes=4", "flood=7", "think=2s", "burst=5"})
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := g.Trace(1), g.Trace(1), g.Trace(2)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed gives another trace")
	}
	if reflect.DeepEqual(a.Turns, c.Turns) {
		t.Error("another seed gives the same trace")
	}
	if len(a.Sessions) != 57 {
		t.Errorf("%d conversations, want 50 and a flood of 7", len(a.Sessions))
	}
}

// TestGeneratedPromptsGoOn: each prompt contains the whole previous one, and conversations of one kind have a common
// beginning.
func TestGeneratedPromptsGoOn(t *testing.T) {
	g := DefaultGenerator()
	g.Conversations, g.Prefixes, g.Flood, g.FloodTokens = 40, 2, 5, 640
	trace := g.Trace(3)
	alike := 0
	for i, x := range trace.Turns {
		if x.Next >= 0 && common(trace, i, int(x.Next), 1) != x.Prompt {
			t.Errorf("turn %d does not hold turn %d", x.Next, i)
		}
		if i > 0 && x.Number == 0 && x.Session < 40 {
			switch n := common(trace, 0, i, 1); n {
			case g.System:
				alike++
			case 0:
			default:
				t.Errorf("conversation %d shares %d tokens with the first", x.Session, n)
			}
		}
		if x.Session > 40 && common(trace, i, trace.Sessions[40].First, 64) != 10 {
			t.Errorf("turn %d of the flood does not begin as the others", i)
		}
	}
	if alike < 5 || alike > 34 {
		t.Errorf("%d of 39 conversations begin as the first", alike)
	}
}

// TestBurstsAndFloods: in bursts conversations start that many times as often, and a flood starts at one time.
func TestBurstsAndFloods(t *testing.T) {
	g := DefaultGenerator()
	g.Conversations, g.Burst, g.Flood = 20_000, 9, 50
	trace := g.Trace(1)
	out, _ := trace.beginnings(1000, rand.New(rand.NewPCG(1, 1)))
	burst, quiet, flood := 0, 0, 0
	for i, at := range out {
		switch phase := at.Seconds() / 100; {
		case i >= 20_000:
			flood++
			if at != 500*time.Second {
				t.Fatalf("the flood comes at %v", at)
			}
		case phase-float64(int(phase)) < burstShare:
			burst++
		default:
			quiet++
		}
	}
	if ratio := float64(burst) / 0.2 / (float64(quiet) / 0.8); flood != 50 || ratio < 8.5 || ratio > 9.5 {
		t.Errorf("%d in bursts, %d else: %.2f times as often; flood of %d", burst, quiet, ratio, flood)
	}
}

func TestGeneratorFaults(t *testing.T) {
	for setting, want := range map[string]string{
		"conversations":         "want name=value",
		"conversation=3":        `no generator setting "conversation"`,
		"conversations=x":       "a number",
		"conversations=0":       "must be in 1..1e+06, got 0",
		"turns=NaN":             "must be in 0..1000",
		"think=5":               "a duration",
		"think=-5s":             "must be in 0s..24h0m0s, got -5s",
		"conversations=1000000": "more than the 5000000",
	} {
		if _, err := ParseGenerator([]string{setting}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
	}
}
