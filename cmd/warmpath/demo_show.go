package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/term"

	"github.com/warmpath/warmpath/internal/play"
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

// roomForTable reports whether the terminal can show the table without wrapping or scrolling.
func roomForTable() bool {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	return err == nil && width >= 80 && height >= 24
}

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
	drawn := 0
	for {
		select {
		case <-done:
			if drawn > 0 {
				fmt.Fprintf(w, "\x1b[%dA\x1b[J", drawn)
			}
			return
		case <-tick.C:
		}
		elapsed := time.Since(began).Round(time.Second)
		if !show.terminal {
			fmt.Fprintf(w, "%4s  %s\n", elapsed, show.line(sides))
			continue
		}
		text := fmt.Sprintf("%s\n after %s, Ctrl-C ends it\n", show.table(sides), elapsed)
		if drawn > 0 {
			fmt.Fprintf(w, "\x1b[%dA\x1b[J", drawn)
		}
		fmt.Fprint(w, text)
		drawn = strings.Count(text, "\n")
	}
}

func lines(sides []*side) string { return line(sides[0]) + "  |  " + line(sides[1]) }

func line(s *side) string {
	v := s.score.Summary()
	return fmt.Sprintf("%s: %d requests, %d failed, TTFT p50 %.0f p90 %.0f ms, hit %.1f %%", s.name, v.Requests, v.Failed, v.TTFT.P50, v.TTFT.P90, 100*v.HitRate)
}

// sideBySide begins a table with a column for each side; row adds a line to it.
func sideBySide(sides []*side) (t table.Writer, sums []play.Summary, row func(name, format string, value func(play.Summary) any)) {
	t = table.NewWriter()
	t.SetStyle(table.StyleLight)
	header := table.Row{""}
	for _, s := range sides {
		header = append(header, s.name)
		sums = append(sums, s.score.Summary())
	}
	t.AppendHeader(header)
	return t, sums, func(name, format string, value func(play.Summary) any) {
		r := table.Row{name}
		for _, v := range sums {
			r = append(r, fmt.Sprintf(format, value(v)))
		}
		t.AppendRow(r)
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
	return t.Render()
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
	t.AppendSeparator()
	for i := range sums[0].Shares {
		r := table.Row{"work at " + sums[0].Shares[i].Endpoint}
		for _, v := range sums {
			r = append(r, bar(v.Shares[i].Work))
		}
		t.AppendRow(r)
	}
	return t.Render()
}

// bar draws a share of the work.
func bar(share float64) string {
	const width = 20
	n := int(share*width + 0.5)
	return strings.Repeat("█", n) + strings.Repeat("░", width-n) + fmt.Sprintf(" %4.1f %%", 100*share)
}

func conclude(w io.Writer, sides []*side) {
	fmt.Fprintln(w, scores(sides))
	a, b := sides[0].score.Summary(), sides[1].score.Summary()
	if a.TTFT.Mean > 0 && b.TTFT.Mean > 0 {
		fmt.Fprintf(w, "Mean time to first token: %.0f ms with warmpath, %.0f ms with round robin (%.1f times as long).\n", a.TTFT.Mean, b.TTFT.Mean, b.TTFT.Mean/a.TTFT.Mean)
	}
	complain(w, a, b)
}
