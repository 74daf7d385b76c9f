package sim_test

import (
	"testing"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/shadow"
	"github.com/warmpath/warmpath/sim/drive"
	simfigures "github.com/warmpath/warmpath/sim/figures"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// shadowed is a replay with shadow policies.
type shadowed struct {
	replay  drive.Replay
	shadows *shadow.Set
	figures simfigures.Figures
}

func shadowPolicies(t testing.TB, names ...string) []shadow.Policy {
	t.Helper()
	var out []shadow.Policy
	for _, name := range names {
		make, err := policy.New(policy.Config{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, shadow.Policy{Name: name, New: make})
	}
	return out
}

func playShadowed(t testing.TB, acting string, shadows ...string) *shadowed {
	t.Helper()
	g := trace.DefaultGenerator()
	g.Conversations = 300
	preset, _ := rig.PresetNamed("reference")
	s := &shadowed{}
	s.shadows = shadow.New(shadow.Config{
		Acting: acting, Policies: shadowPolicies(t, shadows...),
	})
	s.replay = drive.Replay{
		Trace: g.Trace(3), Fleet: rig.Even(6, preset.Engine), Policy: shadowPolicies(t, acting)[0].New,
		Content: true, IDs: true, Load: 0.7, Seed: 1,
	}
	sighting := new(shadow.Sighting)
	s.replay.Announced = func(e *route.Entry) {
		switch {
		case e.Decision != nil && sighting.Take(e.View, e.Request, placed(e.Decision)):
			s.shadows.Judge(sighting)
		case e.Ended != nil:
			sighting.End(e.Ended.Decision.Lease, e.Ended.Outcome)
			s.shadows.Judge(sighting)
		}
		for _, endpoint := range e.Gone {
			sighting.Leave(endpoint)
			s.shadows.Judge(sighting)
		}
	}
	o, err := s.replay.Run()
	if err != nil {
		t.Fatal(err)
	}
	s.figures = simfigures.Of(&s.replay, o, simfigures.Objective{})
	return s
}

// TestShadowOfTheActingPolicyNeverDiffers: a shadow of the live policy always decides alike, whatever state it keeps.
func TestShadowOfTheActingPolicyNeverDiffers(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := playShadowed(t, name, name)
			r := s.shadows.Report()
			if h := r.Shadows[0].Here; h.Differs != 0 || h.Decisions != uint64(s.figures.Requests) {
				t.Errorf("it differs from itself in %d of %d decisions of %d requests: %v",
					h.Differs, h.Decisions, s.figures.Requests, r.Shadows[0].Why)
			}
		})
	}
}

// TestShadowsTellWhatWouldHaveBeen: whichever policy is live, the worlds of the others match replays in which those are
// live.
func TestShadowsTellWhatWouldHaveBeen(t *testing.T) {
	names := []string{"round_robin", "consistent_hash", "session", "least_ttft"} // worst first
	var real []simfigures.Figures
	var told []shadow.Report
	for _, acting := range names {
		s := playShadowed(t, acting, names...)
		real, told = append(real, s.figures), append(told, s.shadows.Report())
	}
	for a, r := range told {
		for i, x := range r.Shadows {
			w := &x.Apart
			if w.Turns != uint64(real[i].Requests) || r.Late != 0 {
				t.Errorf("%s decides: the world of %s has %d turns of %d",
					names[a], names[i], w.Turns, real[i].Requests)
			}
			mean, hit := w.TTFTMs/float64(w.Turns), float64(w.CachedTokens)/float64(w.PromptTokens)
			if ratio := mean / real[i].TTFT.Mean; ratio < 0.65 || ratio > 1.2 {
				t.Errorf("%s decides: in the world of %s a first token takes %.1f ms, when it decides %.1f ms",
					names[a], names[i], mean, real[i].TTFT.Mean)
			}
			if off := hit - real[i].HitRate; off < -0.04 || off > 0.04 {
				t.Errorf("%s decides: in the world of %s %.1f %% is cached, when it decides %.1f %%",
					names[a], names[i], 100*hit, 100*real[i].HitRate)
			}
			if home := float64(w.Home) / float64(max(1, w.Later)); home < real[i].HomeShare-0.05 ||
				home > real[i].HomeShare+0.05 {
				t.Errorf("%s decides: in the world of %s %.3f stay at home, when it decides %.3f",
					names[a], names[i], home, real[i].HomeShare)
			}
		}
		// Sticky and non-sticky policies are far apart.
		cost := func(i int) float64 { return r.Shadows[i].Apart.TTFTMs }
		if !(cost(0) > 1.3*cost(1) && cost(1) > 1.3*cost(2)) || cost(3) > 1.05*cost(2) {
			t.Errorf("%s decides: the worlds come in another order than the replays: %.0f, %.0f, %.0f, %.0f",
				names[a], cost(0), cost(1), cost(2), cost(3))
		}
	}
}

// placed is what a shadow gets of a decision.
func placed(d *route.Decision) shadow.Placed {
	return shadow.Placed{Lease: d.Lease, Endpoint: d.Endpoint.Name, Pool: d.Pool, Session: d.Session, Reason: d.Reason}
}
