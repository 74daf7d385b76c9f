package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// tell says what is about to be replayed.
func tell(w io.Writer, t *trace.Trace, f simrig.Fleet, p trace.Plan) {
	d := p.Demand
	fmt.Fprintf(w, "%s (%s): %d requests of %d conversations, %.0f prompt and %.0f answer tokens on average\n", t.Name, t.Format, d.Turns, d.Sessions,
		float64(d.Prompt)/float64(d.Turns), float64(d.Output)/float64(d.Turns))
	fmt.Fprintf(w, "%d endpoints; load %.2f of their %.1f requests a second with an unlimited cache, which would find %.1f %%", len(f.Endpoints), p.Load,
		f.Capacity(d), 100*d.IdealHitRate())
	if t.Timed {
		fmt.Fprintf(w, "; sessions begin at recorded times × %.3g\n", p.Begin)
	} else if t.Closed {
		fmt.Fprintf(w, "; a session begins every %s\n", p.Gap.Round(time.Millisecond))
	} else {
		fmt.Fprintf(w, "; recorded times × %.3g\n", p.Stretch)
	}
	for _, note := range t.Notes {
		fmt.Fprintf(w, "Note: %s.\n", note)
	}
}

// printFigures shows all policies side by side: how long turns took, and what was done where.
func printFigures(w io.Writer, runs []*simulation) {
	times := figuresTable("policy", "ids", "TTFT mean", "p50", "p90", "p99", "e2e mean", "p50", "p90", "p99", "ITL mean", "p50", "p90", "p99", "gap p50", "p90", "p99", "good %", "regret", "failed")
	places := figuresTable("policy", "hit %", "expected", "work CV", "max/min", "first CV", "home %", "queue", "most", "evictions", "util", "router MB", "s")
	for _, s := range runs {
		f := &s.figures
		ids := "no"
		if f.IDs {
			ids = "yes"
		}
		times.Row(
			s.title(), ids, whole(f.TTFT.Mean), whole(f.TTFT.P50), whole(f.TTFT.P90), whole(f.TTFT.P99), whole(f.E2E.Mean), whole(f.E2E.P50), whole(f.E2E.P90), whole(f.E2E.P99),
			fmt.Sprintf("%.1f", f.ITL.Mean), fmt.Sprintf("%.1f", f.ITL.P50), fmt.Sprintf("%.1f", f.ITL.P90), fmt.Sprintf("%.1f", f.ITL.P99),
			fmt.Sprintf("%.1f", f.Gap.P50), fmt.Sprintf("%.1f", f.Gap.P90), fmt.Sprintf("%.1f", f.Gap.P99), percent(f.Goodput), whole(f.RegretMean), f.Failed,
		)
		places.Row(
			s.title(), percent(f.HitRate), percent(f.Predicted), fmt.Sprintf("%.3f", f.WorkCV), fmt.Sprintf("%.2f", f.WorkMaxMin), fmt.Sprintf("%.3f", f.FirstTurnCV), percent(f.HomeShare),
			fmt.Sprintf("%.1f", f.QueueMean), f.QueueMax, f.Evictions, fmt.Sprintf("%.2f", f.Utilisation), megabytes(f.RouterBytes), fmt.Sprintf("%.1f", f.WallS),
		)
	}
	fmt.Fprintln(w, times)
	fmt.Fprintln(w, places)
	printSplit(w, runs)
	slo := runs[0].slo
	fmt.Fprintf(w, "Times in ms; good is a TTFT within %s and a mean ITL within %s. An unlimited cache and perfect routing would hit %s %%.\n", slo.TTFT, slo.ITL, percent(runs[0].figures.IdealHitRate))
}

// figuresTable is a table whose columns but the first are figures.
func figuresTable(headings ...string) *terminal.Table {
	t := terminal.NewTable(terminal.Wide, headings...)
	t.RightFrom(2)
	return t
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/1e6) }

func whole(x float64) string   { return fmt.Sprintf("%.0f", x) }
func percent(x float64) string { return fmt.Sprintf("%.1f", 100*x) }

// write writes the files that the flags ask for, each whole or not at all.
func (o *simulateOptions) write(e env, runs []*simulation) error {
	if o.json != "" {
		all := make([]figures.Figures, len(runs))
		for i, s := range runs {
			all[i] = s.figures
		}
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(all); err != nil {
			return err
		}
		if o.json == "-" {
			if _, err := e.stdout.Write(out.Bytes()); err != nil {
				return err
			}
		} else if err := wholefile.Write(o.json, out.Bytes()); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name string
		make func(runs []*simulation) ([]byte, error)
	}{{o.report, htmlReport}, {o.svg, pictureSVG}, {o.png, picturePNG}} {
		if f.name == "" {
			continue
		}
		data, err := f.make(runs)
		if err != nil {
			return err
		}
		if err := wholefile.Write(f.name, data); err != nil {
			return err
		}
	}
	return nil
}
