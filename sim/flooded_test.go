package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/madeby"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/trace"
)

// flooded is four tenants with equal load; the last may send a multiple of it.
func flooded(perSecond float64, times int) scenario {
	w := trace.Chats()
	w.Conversations, w.PerSecond = int(40*perSecond), perSecond
	return scenario{
		name: "flooded", fleet: fleetOf(4, nil), work: w,
		talks: func(g trace.Generator, seed uint64) []trace.Conversation {
			talks := g.Draw(seed)
			for i := range talks {
				talks[i].Tenant = string(rune('a' + i%4))
			}
			more := g
			more.PerSecond = g.PerSecond * float64(times-1) / 4
			if more.Conversations = g.Conversations * (times - 1) / 4; more.Conversations == 0 {
				return talks
			}
			for i, c := range more.Draw(seed + 1000) {
				c.ID, c.Tenant = fmt.Sprint("more", i), "d"
				talks = append(talks, c)
			}
			return talks
		},
	}
}

// others are the turns of the other tenants.
func (s *scenario) others(seed uint64, turns []turnout) (out []turnout) {
	talks := s.conversations(seed)
	for _, x := range turns {
		if talks[x.Conversation].Tenant != "d" {
			out = append(out, x)
		}
	}
	return out
}

// TestFlooded: with a limit of 16 running requests per tenant, one that sends ten times its load changes the others'
// p95 time to first token by less than a fifth and their hit rate by less than two points. A single seed varies by a
// fifth itself. Without the limit, the shared queue alone keeps them from waiting as long as the flood does.
func TestFlooded(t *testing.T) {
	t.Parallel()
	from := fewOf([]uint64{1, 2, 3, 4}, 3)
	play := func(times, running int, together bool) (f figuresOfOthers) {
		var all []turnout
		for _, seed := range from {
			s := flooded(8, times)
			_, turns := s.play(t, ours(t), seed, func(r *drive.Replay) {
				r.Standing.MaxRunning = running
				if together {
					for i := range r.Trace.Sessions {
						r.Trace.Sessions[i].Tenant = ""
					}
				}
			})
			all = append(all, s.others(seed, turns)...)
			if racing {
				break
			}
		}
		f = figuresOfOthers{quantile(all, 0.95), hitRate(all)}
		t.Logf("%d times, %d running, as one tenant %t: p95 %v, hit %.1f %%",
			times, running, together, f.p95, 100*f.hit)
		return f
	}
	calm, loud := play(1, 16, false), play(10, 16, false)
	if racing {
		return
	}
	shared, together := play(10, 0, false), play(10, 0, true)
	text := "| | p95 | found in caches |\n|---|---|---|\n"
	for _, row := range []struct {
		name string
		f    figuresOfOthers
	}{
		{"no flood, `running: 16`", calm},
		{"flood, `running: 16`", loud},
		{"flood, no limit", shared},
		{"flood, no tenants", together},
	} {
		text += fmt.Sprintf("| %s | %s ms | %.1f %% |\n", row.name, thousands(float64(row.f.p95)/1e6), 100*row.f.hit)
	}
	if *allSeeds {
		madeby.Block(t, "../docs/limits.md", "go test ./sim -run TestFlooded -long -rewrite", text, *rewrite)
	}
	if loud.p95 > calm.p95*12/10 {
		t.Errorf("p95 is %v beside a flood, %v without", loud.p95, calm.p95)
	}
	if loud.hit < calm.hit-0.02 {
		t.Errorf("hit rate is %.3f beside a flood, %.3f without", loud.hit, calm.hit)
	}
	if shared.p95 > together.p95/20 {
		t.Errorf("p95 is %v where tenants share the queue, %v where they are one", shared.p95, together.p95)
	}
}

// figuresOfOthers are the figures of the other tenants.
type figuresOfOthers struct {
	p95 time.Duration
	hit float64
}

// BenchmarkRunning reports the other tenants' p95 time to first token in ms with bounds of running requests per tenant,
// without and beside a flood, from eight seeds. It makes the table of bounds in docs/decisions/0027-tenants.md.
//
//	go test ./sim -run '^$' -bench Running -benchtime 1x
func BenchmarkRunning(b *testing.B) {
	for _, places := range []int{16, 256} {
		for _, running := range []int{8, 12, 16, 24} {
			b.Run(fmt.Sprintf("places=%d/running=%d", places, running), func(b *testing.B) {
				for range b.N {
					for times, unit := range map[int]string{1: "calm-ms", 10: "flood-ms"} {
						var all []turnout
						for seed := uint64(1); seed <= 8; seed++ {
							s := flooded(8, times)
							for i := range s.fleet {
								s.fleet[i].Slots = places
							}
							_, turns := s.play(b, ours(b), seed, func(r *drive.Replay) {
								r.Standing.MaxRunning = running
							})
							all = append(all, s.others(seed, turns)...)
						}
						b.ReportMetric(float64(quantile(all, 0.95))/float64(time.Millisecond), unit)
					}
				}
			})
		}
	}
}
