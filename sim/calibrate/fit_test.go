package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// recordedRun is what a router before simulated engines would record.
func recordedRun(
	t interface{ Fatal(...any) }, fleet rig.Fleet, g trace.Generator, load float64, seed uint64,
) *trace.Recording {
	tr := g.Trace(seed)
	run := drive.Replay{Trace: tr, Fleet: fleet, Load: load, Seed: seed, IDs: true, Policy: func() pick.Policy {
		return atHome{new(int)}
	}}
	o, err := run.Run()
	if err != nil {
		t.Fatal(err)
	}
	r := &trace.Recording{}
	for _, p := range o.Turns {
		x := tr.Turns[p.Turn]
		r.Requests = append(r.Requests, trace.Recorded{
			Endpoint: fleet.Endpoints[p.Endpoint].Name, At: p.Sent, Sent: p.Sent, Data: true, First: p.Sent + p.TTFT,
			End:    p.Sent + p.Took,
			Stream: true, Whole: true, Known: true, Prompt: x.Prompt, Cached: p.Cached, Output: x.Output,
		})
	}
	return r
}

func off(got, want float64) float64 { return math.Abs(got-want) / want }

func checkFit(t interface {
	Errorf(string, ...any)
}, f Endpoint, want engine.Config, rate, step float64,
) {
	at := func(c engine.Config, n int) float64 { return float64(c.StepBase) + float64(n)*float64(c.StepPerSeq) }
	many := 6
	if f.Engine.StepPerSeq == 0 { // it was alone, and the fit says so
		many = 1
	}
	for _, c := range []struct {
		name      string
		got, want float64
		allowed   float64
	}{
		{"prefill rate", f.Engine.PrefillTokensPerSecond, want.PrefillTokensPerSecond, rate},
		{"step of 1", at(f.Engine, 1), at(want, 1), step},
		{"step of many", at(f.Engine, many), at(want, many), step},
	} {
		if off(c.got, c.want) > c.allowed {
			t.Errorf("%s: %s is %.6g, want %.6g within %.0f %%; fit %+v",
				f.Endpoint, c.name, c.got, c.want, 100*c.allowed, f)
		}
	}
}

// TestRobustTellsPlanesApart: if nine in ten answers were computed alone, the tenth separates the two slopes.
func TestRobustTellsPlanesApart(t *testing.T) {
	for seed := range uint64(20) {
		var samples []sample
		for i := range 300 {
			q := 1.0
			if i%10 == 0 {
				q = float64(2 + i/10%5)
			}
			samples = append(samples, sample{p: 1, q: q, y: 2 + 0.3*q})
		}
		if a, b, _ := robust(samples, seed); off(a, 2) > 0.01 || off(b, 0.3) > 0.01 {
			t.Errorf("seed %d: %g + %g each, want 2 + 0.3", seed, a, b)
		}
	}
}

// TestFitPresets: each kind of engine under typical load is recovered.
func TestFitPresets(t *testing.T) {
	t.Parallel()
	for _, p := range rig.Presets() {
		for _, load := range []float64{0.3, 0.7, 0.9} {
			g := trace.DefaultGenerator()
			g.Conversations, g.Think, g.User = 250, 5*time.Second, 1500
			r := recordedRun(t, rig.Even(2, p.Engine), g, load, 1)
			for _, f := range Fit(r, p.Engine) {
				t.Logf("%s %.1f: rate %.0f (%.0f) base %v (%v) perSeq %v (%v) fixed %v n %d/%d out %.2f ttft %.3f "+
					"itl %.3f %v", p.Name, load, f.Engine.PrefillTokensPerSecond, p.Engine.PrefillTokensPerSecond,
					f.Engine.StepBase, p.Engine.StepBase, f.Engine.StepPerSeq, p.Engine.StepPerSeq, f.Fixed, f.Prefills,
					f.Decodes, f.Outliers, f.TTFT, f.ITL, f.Notes)
				checkFit(t, f, p.Engine, 0.05, 0.05)
			}
		}
	}
}

// TestFitAnyEngine: engines of any speed are recovered, with jitter and outliers.
func TestFitAnyEngine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := engine.Config{
			PrefillTokensPerSecond: rapid.Float64Range(1000, 60_000).Draw(t, "rate"),
			ChunkTokens:            rapid.SampledFrom([]int{2048, 8192}).Draw(t, "chunk"),
			CacheTokens:            64 * 20_000, BlockTokens: 64, Slots: 64,
			StepBase:   time.Duration(rapid.IntRange(2000, 25_000).Draw(t, "base")) * time.Microsecond,
			StepPerSeq: time.Duration(rapid.IntRange(20, 800).Draw(t, "per sequence")) * time.Microsecond,
			Jitter:     rapid.Float64Range(0, 0.1).Draw(t, "jitter"),
		}
		// If a step without a prompt takes longer than half a chunk's prefill, the rate cannot be seen
		// (docs/recording.md).
		half := time.Duration(float64(c.ChunkTokens) / c.PrefillTokensPerSecond / 2 * float64(time.Second))
		c.StepPerSeq = min(c.StepPerSeq, half/32)
		c.StepBase = min(c.StepBase, half-16*c.StepPerSeq)
		g := trace.DefaultGenerator()
		g.Conversations, g.Turns, g.Think = 80, 4, 3*time.Second
		// the wait for the end of a step hides shorter prompts
		g.User = max(g.User, 4*c.PrefillTokensPerSecond*c.StepBase.Seconds())
		r := recordedRun(t, rig.Even(1, c), g, rapid.Float64Range(0.2, 0.8).Draw(t, "load"),
			rapid.Uint64().Draw(t, "seed"))
		rng := rand.New(rand.NewPCG(1, 2))
		wrong := rapid.Float64Range(0, 0.1).Draw(t, "outliers")
		for i := range r.Requests {
			if q := &r.Requests[i]; rng.Float64() < wrong {
				q.End += time.Duration(rng.ExpFloat64() * float64(3*time.Second)) // a client that reads slowly
			}
		}
		given := engine.DefaultConfig()
		given.ChunkTokens = c.ChunkTokens
		for _, f := range Fit(r, given) {
			checkFit(t, f, c, 0.10, 0.10)
		}
	})
}

// atHome keeps conversations at home, and uses round robin for new ones.
type atHome struct{ n *int }

func (atHome) Needs() pick.Needs { return pick.Needs{Name: "at_home"} }

func (atHome) Hooks() pick.Hooks { return pick.Hooks{} }

func (p atHome) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	if v.Home >= 0 {
		return pick.Choice{Index: v.Home, Reason: "home"}
	}
	*p.n++
	return pick.Choice{Index: *p.n % len(v.Candidates), Reason: "in_turn"}
}
