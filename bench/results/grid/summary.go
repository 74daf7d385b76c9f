package grid

import (
	"fmt"
	"io"

	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/figures"
)

// printSummary prints how the default policy compares in each cell.
func printSummary(w io.Writer, cells []*judged) {
	t := terminal.NewTable(terminal.Wide, "cell", "p90 ms", "best other", "ms", "ratio", "interval", "", "hit %",
		"best hit", "%", "first CV", "home %", "util", "oracle ms")
	t.Right(2, 4, 5, 6, 8, 10, 11, 12, 13, 14)
	for i, j := range cells {
		if i > 0 && cells[i-1].cell.Trace != j.cell.Trace {
			t.Separator()
		}
		t.Row(summaryRow(j)...)
	}
	fmt.Fprintln(w, t)
	s := scoreOf(cells)
	fmt.Fprintf(w,
		"p90: best %d, within 5 %% %d, open %d, behind %d of %d cells; hit rate within a point of the highest at no "+
			"higher p90: %d, of those at no higher p90: %d; first-turn CV below %g: %d of the %d where it counts.\n",
		s.best, s.within, s.open, s.behind, s.cells, s.hits, s.fairHits, firstTurnMost, s.spreadOK, s.spreads)
	fmt.Fprintln(w, "Behind by all of the 95 % interval of the ratio: behind; by part of it: open. "+
		"The oracle counts nowhere. ! marks what misses its mark.")
}

func summaryRow(j *judged) []any {
	row := []any{fmt.Sprintf("%s %d %s %g", j.cell.Trace, j.cell.Endpoints, j.cell.Fleet, j.cell.Load)}
	if j.verdict == "" {
		for _, m := range j.policies {
			row = append(row, fmt.Sprintf("%s %.0f", m.policy, m.p90.mean))
		}
		return row
	}
	mark := func(ok bool) string {
		if ok {
			return ""
		}
		return " !"
	}
	verdict := string(j.verdict) + mark(j.verdict != verdictBehind && j.verdict != verdictOpen)
	oracle := ""
	for _, m := range j.policies {
		if m.policy == drive.OracleName {
			oracle = whole(m.p90.mean)
		}
	}
	first := fmt.Sprintf("%.3f", j.spread)
	if j.spreadOn {
		first += mark(j.spread < firstTurnMost)
	}
	return append(row, whole(j.ours.p90.mean), j.best.policy, whole(j.best.p90.mean), fmt.Sprintf("%.3f", j.ratio.mean),
		fmt.Sprintf("%.2f..%.2f", j.ratio.low, j.ratio.high), verdict, percent(j.ours.hit.mean)+mark(j.hitOK),
		j.keenest.policy, percent(j.keenest.hit.mean),
		first, percent(j.ours.mean(func(f *figures.Figures) float64 { return f.HomeShare })),
		fmt.Sprintf("%.2f", j.ours.mean(func(f *figures.Figures) float64 { return f.Utilisation })), oracle)
}
