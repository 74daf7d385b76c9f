package grid

import (
	"strings"
	"testing"

	simfigures "github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
)

// TestSplitStanding: the default is compared with the best of the other ways, with and without the aggregated fleet,
// and the page says what is so.
func TestSplitStanding(t *testing.T) {
	figures := func(ttft, gap float64, split bool) []simfigures.Figures {
		f := simfigures.Figures{
			TTFT: simfigures.Spread{Mean: ttft, P90: ttft}, Gap: simfigures.Spread{P50: 4, P90: gap, P99: gap},
			E2E: simfigures.Spread{Mean: 10 * ttft}, SpanS: 1,
		}
		if split {
			f.Split = &simfigures.SplitFigures{
				Share: 0.5, Pools: []simfigures.PoolFigure{{Role: "prefill", Busy: 0.25}},
			}
		}
		return []simfigures.Figures{f, f}
	}
	j := &splitJudged{
		cell: splitCell{trace: "t", load: 0.7, link: simrig.DefaultTransfer(), pre: 1, dec: 1}, ways: []*measured{
			{policy: wayAggregated, figures: figures(100, 200, false)},
			{policy: wayAlways, figures: figures(300, 5, true)},
			{policy: wayTokens, figures: figures(130, 50, true)},
			{policy: wayTime, figures: figures(120, 10, true)},
			{policy: wayFree, figures: figures(90, 8, true)},
		},
	}
	for _, c := range []struct {
		way   int
		what  func(f *simfigures.Figures) float64
		pools bool
		want  float64
	}{{3, ttft90, false, 1.2}, {3, ttft90, true, 120.0 / 130}, {3, gap90, false, 2}, {3, gap99, true, 2}, {
		4, ttft90, false, 0.9,
	}, {4, gap90, true, 1.6}} {
		if got := j.standing(c.way, c.what, c.pools).mean; got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
	page := string(splitPage(&Config{Kind: "reference", Seeds: 2, Half: 2}, []*splitJudged{j}))
	for _, want := range []string{
		"| p90 of the time to first token at most 3 % above the best way's | every cell | 0 of 1 | **not met** |",
		"| the same, not counting the aggregated fleet | most | 1 of 1 | met |",
		"where prompts show in that (it is above twice the median) | every such cell | 1 of 1 | met |",
		"### t, 1P1D, load 0.7, 64 GB/s", "| time | 120 | 120 | 4.0 | 10.0 | 10.0 | 0.0 | 1200 | 50.0 |",
		"Against best, time: TTFT p90 1.20, ITL p90 2.00", "Against best, free: TTFT p90 0.90, ITL p90 1.60",
		"## What is asked, of free", "| the lowest | most | 1 of 1 | met |", "| free | 90 | 90 |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
