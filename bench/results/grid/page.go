package grid

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/figures"
)

// writePage writes the page and its plots, the page last: it is never there without them.
func writePage(l *library, cells, without []*judged) error {
	folder := strings.TrimSuffix(l.Out, filepath.Ext(l.Out))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	pictures := map[string][]string{}
	for _, trace := range tracesOf(cells) {
		of := slices.DeleteFunc(slices.Clone(cells), func(j *judged) bool { return j.cell.Trace != trace })
		for _, p := range []struct {
			suffix string
			draw   func(trace string, cells []*judged) ([]byte, error)
		}{{"ttft", drawTTFT}, {"hits", drawHits}} {
			svg, err := p.draw(trace, of)
			if err != nil {
				return err
			}
			name := trace + "-" + p.suffix + ".svg"
			if err := wholefile.Write(filepath.Join(folder, name), svg); err != nil {
				return err
			}
			pictures[trace] = append(pictures[trace], filepath.ToSlash(filepath.Join(filepath.Base(folder), name)))
		}
	}
	return wholefile.Write(l.Out, page(l, cells, without, pictures))
}

func tracesOf(cells []*judged) []string {
	var out []string
	for _, j := range cells {
		if !slices.Contains(out, j.cell.Trace) {
			out = append(out, j.cell.Trace)
		}
	}
	return out
}

// page is the document: cells with the router's queue, and the same without.
func page(l *library, cells, without []*judged, pictures map[string][]string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b,
		"# Results\n\n<!-- Written by bench/results (cd bench && go run ./results). Do not edit: run it again. -->\n\n")
	introduce(&b, l.Config, cells)
	pageVerdicts(&b, "What is asked, all with the router's queue", cells)
	pageVerdicts(&b, "What is asked, all without", without)
	pageBehind(&b, "Where another policy is better by more than 5 %, all with the queue", cells)
	pageBetter(&b, cells)
	pageBehind(&b, "The same, all without", without)
	pageBetter(&b, without)
	pagePolicies(&b, "Every policy as a multiple of ours, all with the queue", cells)
	pagePolicies(&b, "Every policy as a multiple of ours, all without", without)
	pageEquals(&b, cells)
	for _, trace := range tracesOf(cells) {
		of := slices.DeleteFunc(slices.Clone(cells), func(j *judged) bool { return j.cell.Trace != trace })
		fmt.Fprintf(&b, "\n## %s\n\n", trace)
		t := l.traces[trace].trace
		fmt.Fprintf(&b, "%d requests of %d conversations.\n", len(t.Turns), len(t.Sessions))
		for i, what := range []string{"p90 of the time to first token by load", "hit rate by load"} {
			fmt.Fprintf(&b, "\n![%s: %s](%s)\n", trace, what, pictures[trace][i])
		}
		pageCells(&b, of)
		bare := slices.DeleteFunc(slices.Clone(without), func(j *judged) bool { return j.cell.Trace != trace })
		for _, c := range columns() {
			pageMatrix(&b, c.title+", with the queue", of, c.text)
			pageMatrix(&b, c.title+", without", bare, c.text)
		}
	}
	return b.Bytes()
}

// column is a figure that the page has of every policy in every cell.
type column struct {
	title string
	hits  bool // a hit rate, else seconds
	of    func(f *figures.Figures) float64
}

// columns are the time to first token by mean and quantiles, and the hit rate.
func columns() []column {
	ttft := func(title string, of func(s *figures.Spread) float64) column {
		return column{title: title + " of the time to first token, in s", of: func(f *figures.Figures) float64 {
			return of(&f.TTFT)
		}}
	}
	return []column{
		ttft("Mean", func(s *figures.Spread) float64 { return s.Mean }),
		ttft("p50", func(s *figures.Spread) float64 { return s.P50 }),
		ttft("p90", func(s *figures.Spread) float64 { return s.P90 }),
		ttft("p99", func(s *figures.Spread) float64 { return s.P99 }),
		{"Hit rate, in %", true, func(f *figures.Figures) float64 { return f.HitRate }},
	}
}

// text is the figure of a policy in a cell.
func (c column) text(m *measured) string {
	if c.hits {
		return percent(m.mean(c.of))
	}
	return seconds(m.mean(c.of))
}

// better reports whether a figure is better than another.
func (c column) better(a, b float64) bool { return c.hits == (a > b) && a != b }

func introduce(b *bytes.Buffer, c *Config, cells []*judged) {
	half := "all conversations"
	if c.Half > 0 {
		half = fmt.Sprintf("half %d of the conversations (policies are tuned on the other)", c.Half)
	}
	of := make([]Cell, len(cells))
	for i, j := range cells {
		of[i] = j.cell
	}
	which, only := plural(len(cells), "cell"), onlyOf(of)
	if only != nil {
		whole, _ := Cells(nil)
		which = fmt.Sprintf("%d of the grid's %d cells (%s)", len(cells), len(whole), strings.Join(only, ", "))
	}
	fmt.Fprintf(b, "`%s`, told no conversation ids, against other policies on simulated engines (`%s`), in %s:\n"+
		"%s of each trace, %s each, with %s.\n",
		policy.Default, c.Kind, which, half, plural(len(c.Policies), "policy"), c.seeds())
	if c.Repeat > 1 {
		fmt.Fprintf(b, "Sessions of agents are played %d times, as different conversations.\n", c.Repeat)
	}
	if c.MaxDelay > 0 {
		fmt.Fprintf(b, "Their turns come at most %s after the one before.\n", c.MaxDelay)
	}
	intervals := "One seed shows no intervals: a difference of a few percent may be chance."
	if c.Seeds > 1 {
		intervals = "± and the brackets are 95 % intervals over the seeds (Student's t; of ratios seed by seed, " +
			"in logarithms)."
	}
	fmt.Fprintf(b, `
`+"```sh\ncd bench && %s\n```"+`

[simulate.md](simulate.md) explains traces, load and figures. Fleets are even, or mixed: every fourth endpoint at a third of the speed.
%s The best policy is taken to be the one with the lowest mean, which flatters it. The
oracle knows the engines' caches and queues; it is shown, without the router's queue, and counts nowhere. Plots of times end at 20 times the lowest. Policies that go by
conversations are told the true ids. All policies have [the router's queue](queue.md), those of other routers too, which have it on request only; then all are measured
without it. Plots and what does not say otherwise are of all with it. [No turns are held](agents.md) with any.
`, c.command(only), intervals)
}

// command is what measures this again, with the traces in DIR.
func (c *Config) command(only []string) string {
	var b strings.Builder
	b.WriteString("go run ./results -traces DIR")
	if only != nil {
		fmt.Fprintf(&b, " -only %s", strings.Join(only, ","))
	}
	fmt.Fprintf(&b, " -half %d -seeds %d", c.Half, c.Seeds)
	if c.Repeat > 1 || c.MaxDelay > 0 {
		fmt.Fprintf(&b, " -repeat %d -max-delay %s", c.Repeat, c.MaxDelay)
	}
	fmt.Fprintf(&b, " -engine %s ", c.Kind)
	if len(c.Policies) == len(Everyone()) {
		b.WriteString("-full")
	} else {
		b.WriteString("-policy " + strings.Join(c.Policies, ","))
	}
	return b.String()
}

// seeds names the seeds.
func (c *Config) seeds() string {
	if c.Seeds == 1 {
		return "seed 1"
	}
	return fmt.Sprintf("seeds 1 to %d", c.Seeds)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// pageVerdicts writes the table of aims for the default policy, and which of them are met.
func pageVerdicts(b *bytes.Buffer, title string, cells []*judged) {
	all := scoreOf(cells)
	if all.cells == 0 {
		fmt.Fprintf(b, "\n`%s` or others to compare with were not measured, so there is nothing to judge.\n",
			policy.Default)
		return
	}
	traces, parts := tracesOf(cells), []score{all}
	fmt.Fprintf(b, "\n## %s\n\n| | wanted | all cells |", title)
	for _, t := range traces {
		fmt.Fprintf(b, " %s |", t)
		parts = append(parts, scoreOf(slices.DeleteFunc(slices.Clone(cells), func(j *judged) bool {
			return j.cell.Trace != t
		})))
	}
	fmt.Fprintf(b, " |\n|---|---|---|%s---|\n", strings.Repeat("---|", len(traces)))
	row := func(what, wanted string, of func(s score) string, word string) {
		fmt.Fprintf(b, "| %s | %s |", what, wanted)
		for _, s := range parts {
			fmt.Fprintf(b, " %s |", of(s))
		}
		fmt.Fprintf(b, " %s |\n", word)
	}
	aim := func(what, wanted string, of func(s score) (n, out int), met bool) {
		word := "**not met**"
		if met {
			word = "met"
		}
		row(what, wanted, func(s score) string {
			n, out := of(s)
			return fmt.Sprintf("%d of %d", n, out)
		}, word)
	}
	aim("p90 at most 5 % above the best policy's, or not shown to be more",
		"every cell", func(s score) (int, int) { return s.cells - s.behind, s.cells }, all.behind == 0)
	aim("the same, by the mean alone", "", func(s score) (int, int) { return s.best + s.within, s.cells },
		all.open+all.behind == 0)
	aim("lowest p90", "two thirds", func(s score) (int, int) { return s.best, s.cells }, 3*all.best >= 2*all.cells)
	row("p90 as a multiple of the best other policy's, geometric mean",
		"", func(s score) string { return fmt.Sprintf("%.2f", s.ratio()) }, "")
	aim("hit rate within a point of the highest, at a p90 no higher than there",
		"every cell", func(s score) (int, int) { return s.hits, s.cells }, all.hits == all.cells)
	aim("hit rate within a point of every policy with a p90 no higher than ours",
		"every cell", func(s score) (int, int) { return s.fairHits, s.cells }, all.fairHits == all.cells)
	aim(fmt.Sprintf("first-turn CV below %g %%, on even fleets with %d first turns an endpoint",
		100*firstTurnMost, firstTurns), "every such cell",
		func(s score) (int, int) { return s.spreadOK, s.spreads }, all.spreadOK == all.spreads)
}

// pageBehind lists the cells where another policy is better by more than the margin.
func pageBehind(b *bytes.Buffer, title string, cells []*judged) {
	var lost []*judged
	for _, j := range cells {
		if j.verdict == verdictOpen || j.verdict == verdictBehind {
			lost = append(lost, j)
		}
	}
	slices.SortStableFunc(lost, func(x, y *judged) int {
		if x.ratio.mean > y.ratio.mean {
			return -1
		}
		return 1
	})
	fmt.Fprintf(b, "\n## %s\n\n", title)
	if len(lost) == 0 {
		b.WriteString("Nowhere.\n")
		return
	}
	b.WriteString("| cell | better | its p90, s | ours | ratio | |\n|---|---|---|---|---|---|\n")
	for _, j := range lost {
		word := "the interval reaches 5 %"
		if j.verdict == verdictBehind {
			word = "behind"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", j.cell, j.best.policy, plusMinus(j.best.p90),
			plusMinus(j.ours.p90), bracket(j.ratio), word)
	}
}

// pageBetter lists every figure of every cell in which another policy is better, by however little.
func pageBetter(b *bytes.Buffer, cells []*judged) {
	b.WriteString("\n<details><summary>All figures of all cells in which another policy is better, by however " +
		"little: the best one, and ours as a multiple of its; of hit rates, its points more</summary>\n\n" +
		"| cell | mean | p50 | p90 | p99 | hit rate |\n|---|---|---|---|---|---|\n")
	for _, j := range cells {
		if j.verdict == "" {
			continue
		}
		row, listed := fmt.Sprintf("| %s |", j.cell), false
		for _, c := range columns() {
			best := j.bestBy(c)
			switch ours, its := j.ours.mean(c.of), best.mean(c.of); {
			case !c.better(its, ours):
				row += " |"
			case c.hits:
				row, listed = row+fmt.Sprintf(" %s +%.1f |", best.policy, 100*(its-ours)), true
			default:
				row, listed = row+fmt.Sprintf(" %s %.2f |", best.policy, ours/its), true
			}
		}
		if listed {
			b.WriteString(row + "\n")
		}
	}
	b.WriteString("\n</details>\n")
}

// pagePolicies is how each policy stands beside the default over all cells, the lowest p90 first.
func pagePolicies(b *bytes.Buffer, title string, cells []*judged) {
	rows := beside(cells)
	if len(rows) == 0 {
		return
	}
	traces := tracesOf(cells)
	fmt.Fprintf(b,
		"\n## %s\n\nTime to first token over that of `%s` in the same cell: geometric means over the cells.\n\n"+
			"| policy | mean | p50 | p90 | p99 |", title, policy.Default)
	for _, t := range traces {
		fmt.Fprintf(b, " p90, %s |", t)
	}
	fmt.Fprintf(b, " hit rate, points more | cells with a lower p90 |\n|---|---|---|---|---|%s---|---|\n",
		strings.Repeat("---|", len(traces)))
	for _, r := range rows {
		fmt.Fprintf(b, "| %s | %.2f | %.2f | %.2f | %.2f |", r.policy, r.mean, r.p50, r.p90, r.p99)
		for _, t := range traces {
			if of, ok := r.traces[t]; ok {
				fmt.Fprintf(b, " %.2f |", of)
			} else {
				b.WriteString(" |")
			}
		}
		fmt.Fprintf(b, " %+.1f | %d of %d |\n", 100*r.hit, r.lower, r.cells)
	}
}

// pageEquals lists the cells where a simple policy is as good as the default.
func pageEquals(b *bytes.Buffer, cells []*judged) {
	fmt.Fprintf(b, "\n## Where a simple policy is as good\n\n")
	var out bytes.Buffer
	for _, j := range cells {
		if len(j.equals) == 0 {
			continue
		}
		var names []string
		for _, e := range j.equals {
			names = append(names, fmt.Sprintf("%s %s", e.policy, bracket(e.ratio)))
		}
		fmt.Fprintf(&out, "| %s | %s |\n", j.cell, strings.Join(names, ", "))
	}
	if out.Len() == 0 {
		b.WriteString("Nowhere: each has a p90 more than 5 % above ours in every cell.\n")
		return
	}
	b.WriteString("Their p90, as a multiple of ours, is at most 1.05. Those that go by conversations are told the " +
		"ids that ours is not.\n\n| cell | policies |\n|---|---|\n")
	b.Write(out.Bytes())
}

// pageCells is the table of a trace's cells.
func pageCells(b *bytes.Buffer, cells []*judged) {
	b.WriteString("\n| endpoints | fleet | load | in use | p90, s | best other | its p90 | ratio | | hit % | best " +
		"hit % | first-turn CV | at home % | oracle p90 |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, j := range cells {
		if j.verdict == "" {
			continue
		}
		oracle := ""
		for _, m := range j.policies {
			if m.policy == drive.OracleName {
				oracle = seconds(m.p90.mean)
			}
		}
		first := fmt.Sprintf("%.3f", j.spread)
		if !j.spreadOn {
			first = "(" + first + ")"
		}
		fmt.Fprintf(b, "| %d | %s | %g | %.2f | %s | %s | %s | %s | %s | %s | %s %s | %s | %s | %s |\n",
			j.cell.Endpoints, j.cell.Fleet, j.cell.Load,
			j.ours.mean(func(f *figures.Figures) float64 { return f.Utilisation }), plusMinus(j.ours.p90),
			j.best.policy, plusMinus(j.best.p90), bracket(j.ratio),
			j.verdict, percent(j.ours.hit.mean), percent(j.keenest.hit.mean), j.keenest.policy, first,
			percent(j.ours.mean(func(f *figures.Figures) float64 { return f.HomeShare })), oracle)
	}
	b.WriteString("\n*In use* is the share of the fleet's capacity that was really in use. " +
		"First-turn CVs (the highest of the seeds) in brackets do not count: a mixed fleet, or few first turns.\n")
}

// pageMatrix is one figure of every policy in every cell, folded.
func pageMatrix(b *bytes.Buffer, title string, cells []*judged, of func(m *measured) string) {
	var names []string
	for _, j := range cells {
		for _, m := range j.policies {
			if !slices.Contains(names, m.policy) {
				names = append(names, m.policy)
			}
		}
	}
	slices.SortFunc(names, byRank)
	fmt.Fprintf(b, "\n<details><summary>%s, of every policy</summary>\n\n| endpoints | fleet | load |", title)
	for _, n := range names {
		fmt.Fprintf(b, " %s |", n)
	}
	fmt.Fprintf(b, "\n|---|---|---|%s\n", strings.Repeat("---|", len(names)))
	for _, j := range cells {
		fmt.Fprintf(b, "| %d | %s | %g |", j.cell.Endpoints, j.cell.Fleet, j.cell.Load)
		for _, n := range names {
			text := ""
			for _, m := range j.policies {
				if m.policy == n {
					text = of(m)
				}
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n</details>\n")
}
