package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/internal/terminal"
)

func introduce(w io.Writer, sides []*side, o demoOptions) {
	s := sides[0]
	fmt.Fprintf(w, `warmpath demo: %d simulated engines behind warmpath (%s), the same again behind round robin.
Conversations of several turns begin %.3g times a second; each turn repeats the conversation so far.

Try it:   curl -s %s/v1/chat/completions -H 'Content-Type: application/json' \
            -d '{"model":"demo","messages":[{"role":"user","content":"Hello"}]}'
Metrics:  %s/metrics    Status page: %s/

`, len(s.engines), o.policy, o.rate, s.router.url, s.router.adminURL, s.router.adminURL)
}

// roomForTable reports whether the terminal can show the table.
func roomForTable() bool { return terminal.Holds(os.Stdout, 80, 24) }

// screen is what is shown while the demo runs: a table that is drawn over in a terminal, else lines.
type screen struct {
	terminal bool
	table    func(sides []*side) string
	line     func(sides []*side) string
}

// watch shows the scores now and then until done.
func watch(w io.Writer, show screen, sides []*side, done <-chan struct{}) {
	every := 2 * time.Second
	if show.terminal {
		every = 500 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	began := time.Now()
	var area terminal.Area
	for {
		select {
		case <-done:
			area.Clear(w)
			return
		case <-tick.C:
		}
		elapsed := time.Since(began).Round(time.Second)
		if !show.terminal {
			fmt.Fprintf(w, "%4s  %s\n", elapsed, show.line(sides))
			continue
		}
		area.Draw(w, fmt.Sprintf("%s\n after %s, Ctrl-C ends it\n", show.table(sides), elapsed))
	}
}

func lines(sides []*side) string { return line(sides[0]) + "  |  " + line(sides[1]) }

func line(s *side) string {
	v := s.score.Summary()
	return fmt.Sprintf("%s: %d requests, %d failed, TTFT p50 %.0f p90 %.0f ms, hit %.1f %%", s.name, v.Requests, v.Failed, v.TTFT.P50, v.TTFT.P90, 100*v.HitRate)
}

// sideBySide begins a table with a column for each side; row adds a line to it.
func sideBySide(sides []*side) (t *terminal.Table, sums []play.Summary, row func(name, format string, value func(play.Summary) any)) {
	headings := []string{""}
	for _, s := range sides {
		headings = append(headings, s.name)
		sums = append(sums, s.score.Summary())
	}
	t = terminal.NewTable(terminal.Capitals, headings...)
	return t, sums, func(name, format string, value func(play.Summary) any) {
		cells := []any{name}
		for _, v := range sums {
			cells = append(cells, fmt.Sprintf(format, value(v)))
		}
		t.Row(cells...)
	}
}

// latencies is the table of what clients of both sides wait for.
func latencies(sides []*side) string {
	t, _, row := sideBySide(sides)
	row("requests", "%d", func(v play.Summary) any { return v.Requests })
	row("failed", "%d", func(v play.Summary) any { return v.Failed })
	row("TTFT p50", "%.0f ms", func(v play.Summary) any { return v.TTFT.P50 })
	row("TTFT p90", "%.0f ms", func(v play.Summary) any { return v.TTFT.P90 })
	row("ITL p50", "%.1f ms", func(v play.Summary) any { return v.ITL.P50 })
	row("ITL p99", "%.1f ms", func(v play.Summary) any { return v.ITL.P99 })
	row("longest pause in an answer, p90", "%.0f ms", func(v play.Summary) any { return v.Pause.P90 })
	row("token hit rate", "%.1f %%", func(v play.Summary) any { return 100 * v.HitRate })
	return t.String()
}

// scores is the table of both sides.
func scores(sides []*side) string {
	t, sums, row := sideBySide(sides)
	row("requests", "%d", func(v play.Summary) any { return v.Requests })
	row("failed", "%d", func(v play.Summary) any { return v.Failed })
	row("TTFT mean", "%.0f ms", func(v play.Summary) any { return v.TTFT.Mean })
	row("TTFT p50", "%.0f ms", func(v play.Summary) any { return v.TTFT.P50 })
	row("TTFT p90", "%.0f ms", func(v play.Summary) any { return v.TTFT.P90 })
	row("TTFT p99", "%.0f ms", func(v play.Summary) any { return v.TTFT.P99 })
	row("token hit rate", "%.1f %%", func(v play.Summary) any { return 100 * v.HitRate })
	row("work CV", "%.2f", func(v play.Summary) any { return v.WorkCV })
	t.Separator()
	for i := range sums[0].Shares {
		cells := []any{"work at " + sums[0].Shares[i].Endpoint}
		for _, v := range sums {
			cells = append(cells, terminal.Bar(v.Shares[i].Work))
		}
		t.Row(cells...)
	}
	return t.String()
}

func conclude(w io.Writer, sides []*side) {
	fmt.Fprintln(w, scores(sides))
	a, b := sides[0].score.Summary(), sides[1].score.Summary()
	if a.TTFT.Mean > 0 && b.TTFT.Mean > 0 {
		fmt.Fprintf(w, "Mean time to first token: %.0f ms with warmpath, %.0f ms with round robin (%.1f times as long).\n", a.TTFT.Mean, b.TTFT.Mean, b.TTFT.Mean/a.TTFT.Mean)
	}
	complain(w, a, b)
}
