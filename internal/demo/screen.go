package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/internal/terminal"
)

// view is what is shown while the demo runs: a table that is drawn over in a live terminal, else lines.
type view interface {
	table(sides []*side) string
	line(sides []*side) string
}

// watch shows the scores now and then until done.
func watch(w io.Writer, live bool, show view, sides []*side, done <-chan struct{}) {
	every := 2 * time.Second
	if live {
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
		if !live {
			fmt.Fprintf(w, "%4s  %s\n", elapsed, show.line(sides))
			continue
		}
		area.Draw(w, fmt.Sprintf("%s\n after %s, Ctrl-C ends it\n", show.table(sides), elapsed))
	}
}

// sideBySide begins a table with a column for each side; row adds a line to it.
func sideBySide(
	sides []*side,
) (t *terminal.Table, sums []play.Summary, row func(name, format string, value func(play.Summary) any)) {
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

// complain prints what failed last on each side.
func complain(w io.Writer, sums ...play.Summary) {
	for _, s := range sums {
		if s.LastError != "" {
			fmt.Fprintf(w, "last failure: %s\n", s.LastError)
		}
	}
}
