package grid

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/figures"
)

// splitPage is the document.
func splitPage(c *Config, cells []*splitJudged) []byte {
	var b bytes.Buffer
	half := "all conversations"
	if c.Half > 0 {
		half = fmt.Sprintf("half %d of the conversations (the rule was tuned on the other)", c.Half)
	}
	fmt.Fprintf(&b, "# Results: disaggregated serving\n\n"+
		"<!-- Written by bench/results (cd bench && go run ./results -disagg). Do not edit: run it again. -->\n\n")
	fmt.Fprintf(&b, `When does it pay to compute prompts at some engines and answer at others? %d simulated engines (`+
		"`%s`"+`), all doing both (aggregated), against as many of
which some compute prompts for the rest: all requests split (always), those with prompts of at least %d tokens (production-stack PR 890), and those that are predicted
to cost less in two legs (time, the default where endpoints have roles). Last (free), a fleet **without roles**: the endpoints of the aggregated one, each of which does all, and computes prompts for
others where that costs less (`+"`disaggregation.when: free`"+`). Placed by `+"`%s`"+`, told no conversation ids; %s of each trace, %s.

How many have the roles prefill and decode (7P1D) follows from the trace: the share of prompts in the work that an unlimited cache leaves, rounded. `+"`%s`"+` is drawn: chats, of which every tenth begins with a document of 16,000
tokens on average (`+"`--generate %s`"+`). KV cache goes over links of 64 GB/s (Dynamo's mocker), there also of 10 Gbit/s, at 131,072 bytes a token. [simulate.md](simulate.md) explains loads and figures; ITL is every gap between
two tokens, brackets are 95 %% intervals over the seeds.
`, splitEndpoints, c.Kind, splitThreshold, policy.Default, half, c.seeds(), mixedTrace, mixedSettings)
	ways := splitWays()
	for _, way := range []int{slices.Index(ways, wayFree), slices.Index(ways, wayTime)} {
		splitAsked(&b, cells, way)
	}
	b.Write(splitTables(cells))
	return b.Bytes()
}

// splitAsked writes the table of aims for a way, compared with the ways before it, and which of them are met.
func splitAsked(b *bytes.Buffer, cells []*splitJudged, way int) {
	fmt.Fprintf(b, "\n## What is asked, of %s\n\n| | wanted | so in | |\n|---|---|---|---|\n", splitWays()[way])
	row := func(what, wanted string, of []*splitJudged, enough func(n, of int) bool, so func(j *splitJudged) bool) {
		n := 0
		for _, j := range of {
			if so(j) {
				n++
			}
		}
		word := "met"
		if !enough(n, len(of)) {
			word = "**not met**"
		}
		fmt.Fprintf(b, "| %s | %s | %d of %d | %s |\n", what, wanted, n, len(of), word)
	}
	every := func(n, of int) bool { return n == of }
	most := func(n, of int) bool { return 2*n > of }
	var stalled []*splitJudged
	for _, j := range cells {
		if all := j.ways[0]; all.mean(gap99) > 2*all.mean(func(f *figures.Figures) float64 { return f.Gap.P50 }) {
			stalled = append(stalled, j)
		}
	}
	for _, m := range []struct {
		name string
		of   func(f *figures.Figures) float64
	}{{"p90 of the time to first token", ttft90}, {"p90 of the ITL", gap90}, {"mean time to the last token", e2eMean}} {
		row(m.name+" at most 3 % above the best way's", "every cell", cells, every,
			func(j *splitJudged) bool { return j.standing(way, m.of, false).mean <= splitMargin })
		row("the same, not counting the aggregated fleet", "every cell", cells, every,
			func(j *splitJudged) bool { return j.standing(way, m.of, true).mean <= splitMargin })
		row("the lowest", "most", cells, most, func(j *splitJudged) bool {
			return j.standing(way, m.of, false).mean <= 1
		})
		row("the same, not counting the aggregated fleet",
			"most", cells, most, func(j *splitJudged) bool { return j.standing(way, m.of, true).mean <= 1 })
	}
	row("p99 of the ITL at most half of the aggregated fleet's, where prompts show in that (it is above twice "+
		"the median)", "every such cell", stalled, every, func(j *splitJudged) bool {
		return ratioOf(j.ways[way].of(gap99), j.ways[0].of(gap99)).mean <= 0.5
	})
}

// splitTables are the figures of each cell.
func splitTables(cells []*splitJudged) []byte {
	var b bytes.Buffer
	b.WriteString("\n## Figures\n\nTimes in ms. Against best: how many times as much as the best of the ways above " +
		"it one takes.\n")
	for _, j := range cells {
		fmt.Fprintf(&b, "\n### %s\n\n| | TTFT mean | p90 | ITL p50 | p90 | p99 | p90 of turns' mean ITL "+
			"| last token, mean | split %% | tokens moved | transfer p90 | hit %% | busy %% |\n|---|%s\n",
			j.cell, strings.Repeat("---|", 12))
		for _, m := range j.ways {
			mean := func(what func(f *figures.Figures) float64) float64 { return m.mean(what) }
			fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.1f | %.1f | %.1f | %.1f | %.0f | %s | %s |\n",
				m.policy, mean(func(f *figures.Figures) float64 { return f.TTFT.Mean }), mean(ttft90),
				mean(func(f *figures.Figures) float64 { return f.Gap.P50 }),
				mean(gap90), mean(gap99), mean(func(f *figures.Figures) float64 { return f.ITL.P90 }), mean(e2eMean),
				m.splitColumns(), m.busyColumns())
		}
		b.WriteString("\n")
		for way := len(j.ways) - 1; way >= len(j.ways)-2; way-- {
			fmt.Fprintf(&b, "Against best, %s: TTFT p90 %s, ITL p90 %s, ITL p99 %s, last token %s.\n",
				j.ways[way].policy, ratioWord(j.standing(way, ttft90, false)), ratioWord(j.standing(way, gap90, false)),
				ratioWord(j.standing(way, gap99, false)), ratioWord(j.standing(way, e2eMean, false)))
		}
	}
	return b.Bytes()
}

func ratioWord(i interval) string {
	if math.IsNaN(i.mean) {
		return "unknown"
	}
	return bracket(i)
}

// splitColumns are the share split, the tokens moved and the time that took.
func (m *measured) splitColumns() string {
	if m.figures[0].Split == nil {
		return " | | "
	}
	of := func(what func(s *figures.SplitFigures) float64) float64 {
		return m.mean(func(f *figures.Figures) float64 { return what(f.Split) })
	}
	return fmt.Sprintf("%.1f | %.0f | %.0f", 100*of(func(s *figures.SplitFigures) float64 { return s.Share }),
		of(func(s *figures.SplitFigures) float64 { return s.Moved }),
		of(func(s *figures.SplitFigures) float64 { return s.Transfer.P90 }))
}

// busyColumns are the hit rate and how busy each pool was.
func (m *measured) busyColumns() string {
	hit := percent(m.mean(func(f *figures.Figures) float64 { return f.HitRate }))
	if m.figures[0].Split == nil {
		var busy float64
		for i := range m.figures {
			f := &m.figures[i]
			for _, e := range f.PerEndpoint {
				busy += e.BusyS / f.SpanS / float64(len(f.PerEndpoint)*len(m.figures))
			}
		}
		return fmt.Sprintf("%s | %.0f", hit, 100*busy)
	}
	var parts []string
	for p := range m.figures[0].Split.Pools {
		busy := m.mean(func(f *figures.Figures) float64 { return f.Split.Pools[p].Busy })
		parts = append(parts, fmt.Sprintf("%s %.0f", m.figures[0].Split.Pools[p].Role, 100*busy))
	}
	return hit + " | " + strings.Join(parts, ", ")
}
