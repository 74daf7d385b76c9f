package sim_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/trace"
)

// table plays the workload of the scenario `table` in docs/scenarios.md on its fleet.
func table(t testing.TB, policyName string, seed uint64, ids bool) []turnout {
	t.Helper()
	s := scenarios()[0]
	return s.run(t, byName(t, policyName, ids), seed)
}

func hitRate(turns []turnout) float64 {
	prompt, cached := 0, 0
	for _, x := range turns {
		prompt, cached = prompt+x.PromptTokens, cached+x.CachedTokens
	}
	return float64(cached) / float64(prompt)
}

func mean(turns []turnout) time.Duration {
	var sum time.Duration
	for _, x := range turns {
		sum += x.TTFT
	}
	return sum / time.Duration(len(turns))
}

// TestEveryTurnIsPlayedOnce: all turns of all conversations are sent in order and answered completely, and equal seeds
// give equal runs.
func TestEveryTurnIsPlayedOnce(t *testing.T) {
	turns := table(t, "session", 1, true)
	next := map[int]int{}
	for _, x := range turns {
		if x.Turn != next[x.Conversation] || x.Failed || x.TTFT <= 0 || x.Took < x.TTFT ||
			x.CachedTokens >= x.PromptTokens {
			t.Fatalf("%+v", x)
		}
		next[x.Conversation]++
	}
	for i, c := range trace.Chats().Draw(1) {
		if next[i] != len(c.Turns) {
			t.Errorf("conversation %d: %d of %d turns", i, next[i], len(c.Turns))
		}
	}
	again := table(t, "session", 1, true)
	for i := range turns {
		if turns[i] != again[i] {
			t.Fatalf("turn %d differs: %+v, %+v", i, turns[i], again[i])
		}
	}
}

// TestStayingBeatsTakingTurns, on the fleet of the scenario `table` in docs/scenarios.md.
func TestStayingBeatsTakingTurns(t *testing.T) {
	stay, turns := table(t, "session", 1, true), table(t, "round_robin", 1, true)
	if hitRate(stay) < hitRate(turns)+0.1 || mean(stay) > mean(turns)/2 {
		t.Errorf("session: hit %.3f, mean %v; round robin: hit %.3f, mean %v",
			hitRate(stay), mean(stay), hitRate(turns), mean(turns))
	}
}

func BenchmarkTable(b *testing.B) {
	for _, name := range policy.Names() {
		b.Run(name, func(b *testing.B) {
			var turns []turnout
			for b.Loop() {
				turns = table(b, name, 1, true)
			}
			b.ReportMetric(100*hitRate(turns), "hit-%")
			b.ReportMetric(float64(mean(turns).Milliseconds()), "ttft-mean-ms")
			b.ReportMetric(float64(quantile(turns, 0.9).Milliseconds()), "ttft-p90-ms")
			b.ReportMetric(float64(quantile(turns, 0.99).Milliseconds()), "ttft-p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
