package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

// wholeScenarios are all scenarios, and two in which speed can be learnt from little but answers: uncached prompts on a
// mixed fleet, and long prompts with long answers.
func wholeScenarios() []scenario {
	return append(scenarios(), scenario{name: "documents", fleet: fleetOf(4, func(i int, c *engine.Config) {
		if i == 3 {
			c.PrefillTokensPerSecond = 3_000
		}
	}), work: single(600, 5, 300, 3000, 40)},
		scenario{name: "essays", fleet: fleetOf(6, nil), work: single(500, 2.5, 100, 12_000, 300)})
}

// single is conversations of one turn.
func single(conversations int, perSecond float64, system int, user, answer float64) trace.Generator {
	g := trace.Chats()
	g.Conversations, g.PerSecond, g.System, g.User, g.Answer, g.MaxTurns, g.Turns = conversations, perSecond, system,
		user, answer, 1, 0
	return g
}

// TestWholeAnswers: streaming only changes what the router observes. With no answer streamed (with -long also half and
// one in ten), first tokens are about as soon as with all streamed.
func TestWholeAnswers(t *testing.T) {
	page := tableOf(t, "../docs/scenarios.md", "go test ./sim -run TestWholeAnswers -long -rewrite",
		"| Scenario | none | 50 % | 90 % | all |", namesOf(wholeScenarios()))
	for _, s := range wholeScenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if racing {
				// races need no load, and agents would take minutes
				s.whole, s.work.Conversations = 0.9, min(s.work.Conversations, 20)
				s.run(t, ours(t), seeds[0])
				return
			}
			p90, seeds, shares := 1.3, s.fewSeeds(), []float64{1}
			// a tenth comes before the first caches are warm, so p90 is where times are steepest
			if s.name == "templates" {
				p90, seeds = 1.6, s.seeds()
			}
			if s.name == "full_caches" { // whose hit rate varies by a point and a half between two seeds
				seeds = s.seeds()
			}
			if s.name == "agents" { // whose p90 varies tenfold between seeds
				p90 = 1.5
			}
			if *allSeeds {
				shares = []float64{0.5, 0.9, 1}
			}
			streamed, _ := s.pooled(t, ours(t), seeds...)
			cells := map[float64]string{0: streamed.late()}
			for _, s.whole = range shares {
				got, turns := s.pooled(t, ours(t), seeds...)
				s.served(t, turns)
				cells[s.whole] = got.late()
				if got.mean > 1.2*streamed.mean || got.p90 > p90*streamed.p90 || got.p99 > 1.5*streamed.p99 ||
					got.hit < streamed.hit-0.015 {
					t.Errorf("%.0f %% of the answers come as a whole: TTFT mean %.0f, p90 %.0f, p99 %.0f ms, "+
						"hit rate %.3f; all streamed: %.0f, %.0f, %.0f ms, %.3f", 100*s.whole, got.mean, got.p90,
						got.p99, got.hit, streamed.mean, streamed.p90, streamed.p99, streamed.hit)
				}
			}
			if slices.Equal(seeds, s.seeds()) {
				page.add(s.name, cells[0], cells[0.5], cells[0.9], cells[1])
			}
		})
	}
}

// late is p90 and p99, as in docs/scenarios.md.
func (f *figures) late() string { return thousands(f.p90) + " / " + thousands(f.p99) }

// TestSpeedsAmongWholeAnswers: the speed of an engine is learnt even from concurrent non-streamed answers.
func TestSpeedsAmongWholeAnswers(t *testing.T) {
	for _, s := range scenarios() {
		switch s.name {
		case "table", "uneven", "short", "long", "overload": // in which an engine computes much, all the time
		default:
			continue
		}
		for _, whole := range []float64{0.5, 0.9, 1} {
			t.Run(fmt.Sprintf("%s/%.1f", s.name, whole), func(t *testing.T) {
				t.Parallel()
				s := s
				s.whole = whole
				o, _ := s.play(t, ours(t), seeds[0])
				for i, e := range o.Routers[0].Status(start.Add(time.Hour)) {
					if rate := s.fleet[i].PrefillTokensPerSecond; e.PrefillPerSec < 0.6*rate ||
						e.PrefillPerSec > 1.4*rate {
						t.Errorf("%s is thought to compute %.0f tokens a second, it does %.0f",
							e.Endpoint.Name, e.PrefillPerSec, rate)
					}
				}
			})
		}
	}
}
