package report

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/bench/arena/faults"
)

// marks are the lines between which a page holds the figures: those of simulated engines and those of real ones apart.
func (r *Run) marks() (begin, end string) {
	what := "simulated engines"
	if r.Real {
		what = "real engines"
	}
	return "<!-- begin: arena, " + what + " -->", "<!-- end: arena, " + what + " -->"
}

// WriteInto replaces what stands between the marks of a page. The exact settings are left out: the page is for readers
// of figures.
func (r *Run) WriteInto(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := r.marks()
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return fmt.Errorf("arena: %s has no lines %q and %q", path, begin, end)
	}
	var b strings.Builder
	r.figures(&b)
	return os.WriteFile(path, []byte(before+begin+"\n\n"+b.String()+"\n"+end+after), 0o644)
}

// Write writes everything as Markdown.
func (r *Run) Write(w io.Writer) {
	r.figures(w)
	r.configs(w)
}

func (r *Run) figures(w io.Writer) {
	fmt.Fprintf(w, "%s, %d CPUs (%s), %s; %d rounds, seed %d, %s in all.\n",
		r.Time, r.CPUs, r.CPU, r.Engines, r.Rounds, r.Seed, r.Took)
	r.glance(w)
	r.routers(w)
	for _, s := range r.Scenarios {
		r.scenario(w, s)
	}
	r.costs(w)
	r.faults(w)
	r.better(w)
}

// glance is one row for each router: how it stands to ours in each scenario, and what clients noticed of faults.
func (r *Run) glance(w io.Writer) {
	if len(r.Scenarios) == 0 {
		return
	}
	head, rule := "| mean TTFT, times warmpath's", "| ---"
	for _, s := range r.Scenarios {
		head += " | " + lowerFirst(s.Title)
		rule += " | ---:"
	}
	if len(r.Faults) > 0 {
		head += " | requests failed under faults"
		rule += " | ---:"
	}
	fmt.Fprintf(w, "\n### At a glance\n\n%s |\n%s |\n", head, rule)
	for _, router := range r.Routers {
		row := "| " + router.Name
		for _, s := range r.Scenarios {
			cell := "-"
			lines := r.Lines(s.Name)
			mine := slices.IndexFunc(lines, func(l Line) bool { return l.Router == Ours })
			for _, l := range lines {
				switch {
				case l.Router != router.Name || l.Ratio <= 0:
				case mine >= 0 && disagree(&l, &lines[mine]):
					cell = "unclear"
				default:
					cell = fmt.Sprintf("%.2f", l.Ratio)
				}
			}
			row += " | " + cell
		}
		if len(r.Faults) > 0 {
			cell := "-"
			for _, f := range r.Faults {
				if f.Router == router.Name {
					cell = failedOf(f.Outcomes)
				}
			}
			row += " | " + cell
		}
		fmt.Fprintln(w, row+" |")
	}
}

// failedOf sums up the requests sent while an engine was at fault. Clients that left, and streams of a killed engine,
// are not of them.
func failedOf(outcomes []faults.Outcome) string {
	failed, sent := 0, 0
	for _, o := range outcomes {
		if o.Kind != faults.Leaves && o.Kind != faults.LeavesToo && o.Error == "" {
			failed, sent = failed+o.Failed, sent+o.Requests
		}
	}
	return fmt.Sprintf("%d of %d", failed, sent)
}

func (r *Run) routers(w io.Writer) {
	fmt.Fprint(w,
		"\n### Routers\n\n| router | version | from | without ids | with a header |\n| --- | --- | --- | --- | --- |\n")
	for _, x := range r.Routers {
		fmt.Fprintf(w, "| %s | %s | `%s` | %s | %s |\n", x.Name, x.Version, x.From, x.Setting["plain"],
			x.Setting["header"])
	}
	for _, why := range r.LeftOut {
		fmt.Fprintf(w, "\nLeft out: %s\n", why)
	}
}

func (r *Run) scenario(w io.Writer, s Scenario) {
	lines := r.Lines(s.Name)
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### %s\n\n", s.Title)
	fmt.Fprint(w, "| router | TTFT mean ms | p50 | p90 | p99 | mean, times warmpath's (rounds) | p90, "+
		"times | hit rate | work CV | router's CPU ms | failed |\n")
	fmt.Fprint(w, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, l := range lines {
		ratio := "-"
		if l.Ratio > 0 {
			ratio = fmt.Sprintf("%.2f (%.2f to %.2f)", l.Ratio, l.Low, l.High)
		}
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f | %.0f | %s | %s | %.1f %% | %s | %s | %d of %d |\n",
			l.Router, l.TTFT.Mean, l.TTFT.P50, l.TTFT.P90, l.TTFT.P99, ratio, orDash("%.2f", l.RatioP90), 100*l.HitRate,
			orDash("%.2f", max(l.WorkCV, 0)), orDash("%.2f", l.CPUMs), l.Failed, l.Requests)
	}
	for _, l := range lines {
		if l.Failed > 0 {
			fmt.Fprintf(w, "\n%s, a failure: `%s`\n", l.Router, oneLine(l.Example))
		}
	}
}

func (r *Run) costs(w io.Writer) {
	if len(r.Costs) == 0 {
		return
	}
	var requests []string
	for _, c := range r.Costs {
		if !slices.Contains(requests, c.Request) {
			requests = append(requests, c.Request)
		}
	}
	fmt.Fprintf(w, "\n### CPU and memory\n\nCPU µs of the router for each request, and how many times warmpath's; "+
		"resident memory after all of it.\n\n| router | %s | memory MB | errors |\n| ---%s | ---: | ---: |\n",
		strings.Join(requests, " | "), strings.Repeat(" | ---:", len(requests)))
	ours := map[string]float64{}
	for _, c := range r.Costs {
		if c.Router == Ours {
			ours[c.Request] = c.CPUMicros
		}
	}
	for _, router := range r.Routers {
		row, errors, memory, found := "| "+router.Name, 0, 0.0, false
		for _, request := range requests {
			cell := "-"
			for _, c := range r.Costs {
				if c.Router != router.Name || c.Request != request {
					continue
				}
				found = true
				errors += c.Errors
				memory = c.MemoryMB
				if cell = fmt.Sprintf("%.0f", c.CPUMicros); ours[request] > 0 {
					cell += fmt.Sprintf(" (%.2f)", c.CPUMicros/ours[request])
				}
			}
			row += " | " + cell
		}
		if found {
			fmt.Fprintf(w, "%s | %.0f | %d |\n", row, memory, errors)
		}
	}
}

// faultTitles say what each fault is, and what the column shows.
var faultTitles = map[faults.Kind]string{
	faults.Leaves:    "client leaves a stream: engine free after, ms",
	faults.LeavesToo: "client leaves before a whole answer: engine free after, ms",
	faults.Busy:      "an engine answers 503: failed",
	faults.Failing:   "an engine answers 500: failed",
	faults.Stuck:     "an engine is stuck, health good: failed (slowest; back after)",
	faults.Hanging:   "an engine hangs, health too: failed (slowest; back after)",
	faults.Killed:    "an engine is killed: its streams; later requests failed (slowest)",
}

func (r *Run) faults(w io.Writer) {
	if len(r.Faults) == 0 {
		return
	}
	fmt.Fprint(w, "\n### Faults\n\nThree engines, one of them at fault. All routers were tried at the same time, "+
		"each with engines of its own.\n\n")
	row := "| fault"
	for _, f := range r.Faults {
		row += " | " + f.Router
	}
	fmt.Fprintf(w, "%s |\n| ---%s |\n", row, strings.Repeat(" | ---:", len(r.Faults)))
	for _, kind := range faults.Kinds {
		row, found := "| "+faultTitles[kind], false
		for _, f := range r.Faults {
			cell := "-"
			for _, o := range f.Outcomes {
				if o.Kind == kind {
					cell, found = outcomeCell(o), true
				}
			}
			row += " | " + cell
		}
		if found {
			fmt.Fprintln(w, row+" |")
		}
	}
	fmt.Fprint(w, "\nA stream that an engine's death ends is `told` (an error event), "+
		"`cut` (the connection breaks), `silent` (it ends in good order without\n"+
		"`[DONE]`, so that a client may take a part for the whole) or `late` (it stands still).\n")
}

func outcomeCell(o faults.Outcome) string {
	if o.Error != "" {
		return "not measured"
	}
	switch o.Kind {
	case faults.Leaves, faults.LeavesToo:
		if slices.Contains(o.FreedMs, -1) {
			return "not within 10 s"
		}
		return fmt.Sprintf("%.0f (most %.0f)", Median(o.FreedMs), slices.Max(o.FreedMs))
	case faults.Killed:
		var ends []string
		for _, end := range []faults.End{faults.Whole, faults.Told, faults.Cut, faults.Silent, faults.Late} {
			if n := o.Streams[end]; n > 0 {
				ends = append(ends, fmt.Sprintf("%d %s", n, end))
			}
		}
		return fmt.Sprintf("%s; %d of %d (%.1f s)", strings.Join(ends, ", "), o.Failed, o.Requests, o.SlowestS)
	case faults.Stuck, faults.Hanging:
		back := fmt.Sprintf("%.1f s", o.BackS)
		if o.BackS < 0 {
			back = "not within 15 s"
		}
		return fmt.Sprintf("%d of %d (%.1f s; %s)", o.Failed, o.Requests, o.SlowestS, back)
	}
	return fmt.Sprintf("%d of %d", o.Failed, o.Requests)
}

// margin is what a figure must be better by before it is called better: less is noise.
const margin = 0.03

// better lists where another router's figure is better than ours.
func (r *Run) better(w io.Writer) {
	found := slices.Concat(r.betterPlays(), r.betterCosts(), r.betterFaults())
	if len(found) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### Where another one is better\n\n"+
		"Every figure above that is more than %.0f %% better than warmpath's (hit rate: a point):\n\n", 100*margin)
	for _, line := range found {
		fmt.Fprintln(w, "* "+line)
	}
}

// betterPlays compares what conversations saw.
func (r *Run) betterPlays() []string {
	var out []string
	for _, s := range r.Scenarios {
		lines := r.Lines(s.Name)
		i := slices.IndexFunc(lines, func(l Line) bool { return l.Router == Ours })
		if i < 0 {
			continue
		}
		for _, l := range lines {
			if l.Router == Ours {
				continue
			}
			what := betterColumns(&l, &lines[i])
			if len(what) > 0 {
				out = append(out, fmt.Sprintf("%s, %s: %s.", l.Router, lowerFirst(s.Title), strings.Join(what, ", ")))
			}
		}
	}
	return out
}

// column is one figure of a play's table; smaller is better.
type column struct {
	name, form string
	of         func(l *Line) float64 // negative for unknown
}

// columns are the figures of the table of plays, but the hit rate and failures.
var columns = []column{
	{"mean TTFT", "%.0f ms", func(l *Line) float64 { return l.TTFT.Mean }},
	{"p50 TTFT", "%.0f ms", func(l *Line) float64 { return l.TTFT.P50 }},
	{"p90 TTFT", "%.0f ms", func(l *Line) float64 { return l.TTFT.P90 }},
	{"p99 TTFT", "%.0f ms", func(l *Line) float64 { return l.TTFT.P99 }},
	{"work CV", "%.2f", func(l *Line) float64 { return l.WorkCV }},
	{"router's CPU", "%.2f ms", func(l *Line) float64 { return l.CPUMs }},
}

// betterColumns lists every column of the table in which another router's line is better than ours.
func betterColumns(l, mine *Line) (what []string) {
	for _, c := range columns {
		if theirs, ours := c.of(l), c.of(mine); theirs >= 0 && ours > 0 && theirs < ours*(1-margin) &&
			(theirs > 0 || c.name == "work CV") {
			what = append(what, fmt.Sprintf("%s "+c.form+" for "+c.form, c.name, theirs, ours))
		}
	}
	if l.Ratio > 0 && l.Ratio < 1-margin {
		what = append(what, fmt.Sprintf("mean TTFT %.2f times within a round", l.Ratio))
	}
	if l.RatioP90 > 0 && l.RatioP90 < 1-margin {
		what = append(what, fmt.Sprintf("p90 TTFT %.2f times within a round", l.RatioP90))
	}
	if l.HitRate > mine.HitRate+0.01 {
		what = append(what, fmt.Sprintf("hit rate %.1f %% for %.1f %%", 100*l.HitRate, 100*mine.HitRate))
	}
	if theirs, ours := share(l), share(mine); theirs < ours {
		what = append(what, fmt.Sprintf("%d of %d failed for %d of %d",
			l.Failed, l.Requests, mine.Failed, mine.Requests))
	}
	return what
}

// share is the share of requests that failed.
func share(l *Line) float64 { return float64(l.Failed) / float64(max(l.Requests, 1)) }

// disagree reports that the median of the ratios within rounds says one router is better and the medians of the means
// say the other
// is: no figure sums that up.
func disagree(l, mine *Line) bool {
	means := l.TTFT.Mean / mine.TTFT.Mean
	return l.Ratio > 0 && mine.TTFT.Mean > 0 && (l.Ratio-1)*(means-1) < 0 && math.Abs(l.Ratio-means) > margin
}

// betterCosts compares CPU.
func (r *Run) betterCosts() []string {
	var out []string
	costs := map[string]map[string]float64{} // by router and request
	memory := map[string]float64{}
	for _, c := range r.Costs {
		memory[c.Router] = c.MemoryMB
		if costs[c.Router] == nil {
			costs[c.Router] = map[string]float64{}
		}
		costs[c.Router][c.Request] = c.CPUMicros
	}
	for _, router := range r.Routers {
		if router.Name == Ours || costs[Ours] == nil || costs[router.Name] == nil {
			continue
		}
		least, most := 1.0, 0.0
		for request, mine := range costs[Ours] {
			if theirs := costs[router.Name][request]; mine > 0 && theirs > 0 && theirs < mine*(1-margin) {
				least, most = min(least, theirs/mine), max(most, theirs/mine)
			}
		}
		if most > 0 {
			out = append(out, fmt.Sprintf("%s, CPU for each request: %.2f to %.2f times.", router.Name, least, most))
		}
		if theirs := memory[router.Name]; theirs > 0 && theirs < memory[Ours]*(1-margin) {
			out = append(out, fmt.Sprintf("%s, memory: %.0f MB for %.0f MB.", router.Name, theirs, memory[Ours]))
		}
	}
	return out
}

// betterFaults compares the clients' failures.
func (r *Run) betterFaults() []string {
	var out []string
	mine := map[faults.Kind]faults.Outcome{}
	for _, f := range r.Faults {
		if f.Router == Ours {
			for _, o := range f.Outcomes {
				mine[o.Kind] = o
			}
		}
	}
	for _, f := range r.Faults {
		for _, o := range f.Outcomes {
			m, ok := mine[o.Kind]
			if f.Router == Ours || !ok || o.Error != "" || m.Error != "" {
				continue
			}
			title, _, _ := strings.Cut(faultTitles[o.Kind], ":")
			switch {
			case o.Failed < m.Failed:
				out = append(out, fmt.Sprintf("%s, %s: %d failed for %d.", f.Router, title, o.Failed, m.Failed))
			case o.Failed == m.Failed && o.Failed < o.Requests && o.SlowestS < m.SlowestS-1:
				out = append(out, fmt.Sprintf("%s, %s: the slowest answer took %.1f s for %.1f s.",
					f.Router, title, o.SlowestS, m.SlowestS))
			case o.BackS >= 0 && m.BackS >= 0 && o.BackS < m.BackS-1:
				out = append(out, fmt.Sprintf("%s, %s: the engine was in use again after %.1f s for %.1f s.",
					f.Router, title, o.BackS, m.BackS))
			case len(o.FreedMs) > 0 && slices.Min(o.FreedMs) >= 0 &&
				(slices.Contains(m.FreedMs, -1) || Median(o.FreedMs) < Median(m.FreedMs)-5):
				out = append(out, fmt.Sprintf("%s, %s: %.0f ms for %.0f ms.",
					f.Router, title, Median(o.FreedMs), Median(m.FreedMs)))
			}
		}
	}
	return out
}

func (r *Run) configs(w io.Writer) {
	fmt.Fprint(w,
		"\n### Exact settings\n\n`PORT` is the router's port, `ENGINE1` and `ENGINE2` stand for all engines.\n")
	for _, x := range r.Routers {
		fmt.Fprintf(w, "\n%s with a header:\n\n```\n%s```\n", x.Name, x.Config["header"])
		if extra := onlyIn(x.Config["plain"], x.Config["header"]); extra != "" {
			fmt.Fprintf(w, "\nWithout ids instead:\n\n```\n%s```\n", extra)
		}
	}
}

// onlyIn are the lines of a that b does not have.
func onlyIn(a, b string) string {
	have := strings.Split(b, "\n")
	var out strings.Builder
	for line := range strings.Lines(a) {
		if !slices.Contains(have, strings.TrimSuffix(line, "\n")) {
			out.WriteString(line)
		}
	}
	return out.String()
}

func orDash(format string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ReplaceAll(s, "`", "'")), " ")
	if len(s) > 160 {
		s = s[:160] + "..."
	}
	return s
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
