package sim_test

import (
	"fmt"
	"testing"

	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

// BenchmarkShortlist plays fleets of 64 and 256 with a shortlist and with rows for all endpoints, from the same seeds.
// It reports figures with the shortlist, and as multiples of those without: mean and p90 of the time to first token,
// the hit rate, and the CV of first turns.
//
//	go test ./sim -run '^$' -bench Shortlist -benchtime 1x -seeds 2
func BenchmarkShortlist(b *testing.B) {
	uneven := func(i int, c *engine.Config) {
		if i%4 == 3 {
			c.PrefillTokensPerSecond = 3_000
		}
	}
	for _, n := range []int{64, 256} {
		busy := func(times float64, change func(*trace.Generator)) trace.Generator {
			g := trace.Chats()
			g.Conversations, g.PerSecond = 30*n, times*float64(n)
			if change != nil {
				change(&g)
			}
			return g
		}
		for _, s := range []scenario{
			{name: "chats", fleet: fleetOf(n, nil), work: busy(0.9, nil)},
			{name: "full", fleet: fleetOf(n, nil), work: busy(2.5, nil)},
			{name: "idle", fleet: fleetOf(n, nil), work: busy(0.1, nil)},
			{name: "uneven", fleet: fleetOf(n, uneven), work: busy(0.7, nil)},
			{name: "prefixes", fleet: fleetOf(n, nil), work: busy(0.5, func(g *trace.Generator) {
				g.Prefixes, g.System = n, 8000
			})},
		} {
			b.Run(fmt.Sprint(s.name, "/", n), func(b *testing.B) {
				by := ours(b)
				for b.Loop() {
					var short, whole figures
					for seed := range uint64(*pairs) {
						for _, x := range []struct {
							to   *figures
							most int
						}{{&short, 16}, {&whole, -1}} {
							_, turns := s.play(b, by, seed+1, func(r *drive.Replay) { r.Shortlist = x.most })
							f := sum(turns, n)
							x.to.mean, x.to.p90, x.to.hit, x.to.cv = x.to.mean+f.mean, x.to.p90+f.p90, x.to.hit+f.hit,
								x.to.cv+f.cv
							x.to.failed += f.failed
						}
					}
					b.ReportMetric(short.mean/float64(*pairs), "ms")
					b.ReportMetric(short.mean/whole.mean, "mean")
					b.ReportMetric(short.p90/whole.p90, "p90")
					b.ReportMetric(short.hit/whole.hit, "hit")
					b.ReportMetric(short.cv/whole.cv, "cv")
					if short.failed+whole.failed > 0 {
						b.Fatal("requests failed")
					}
				}
			})
		}
	}
}
