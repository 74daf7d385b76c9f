package backlog

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
)

// TestDelays: after any sequence of arrivals and delays, an answer is expected at the latest time that one of them has
// given, from its arrival on.
func TestDelays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, now := New(Config{}, rates(0.1)), time.Unix(1000, 0)
		table.AddEndpoint(0)
		p, want := &table.endpoints.Get(0).prompts, map[uint32]time.Time{}
		for n := range uint32(rapid.IntRange(1, 40).Draw(t, "steps")) {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			r := rates(rapid.SampledFrom([]float64{0.1, 0.1, 0.1, 0.3}).Draw(t, "speed"))
			table.rates = r
			if rapid.Bool().Draw(t, "arrives") {
				j := table.Open(now, n, Work{
					Class: fleet.Turn, PromptTokens: rapid.IntRange(1, 4000).Draw(t, "tokens"), MsPerToken: r.perToken,
				})
				table.Send(now, n)
				want[n] = j.ready
				continue
			}
			p.until = p.until.Add(time.Duration(rapid.IntRange(-300, 300).Draw(t, "by")) * time.Millisecond)
			for n, ready := range want {
				left := float64(p.nonStreaming.queued-table.jobs.Get(int(n)).End) * r.perToken
				if at := p.until.Add(-fleet.Duration(left)); at.After(ready) {
					want[n] = at
				}
			}
			table.delayNonStreaming(p, r.perToken)
			for n, ready := range want {
				if got := table.jobs.Get(int(n)).ready; got != ready {
					t.Fatalf("answer %d is expected %v after the right time", n, got.Sub(ready))
				}
			}
		}
	})
}
