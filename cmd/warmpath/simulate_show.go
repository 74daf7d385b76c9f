package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/warmpath/warmpath/sim"
)

// tell says what is about to be replayed.
func tell(w io.Writer, t *sim.Trace, f sim.Fleet, p sim.Plan) {
	d := p.Demand
	fmt.Fprintf(w, "%s (%s): %d requests of %d conversations, %.0f prompt and %.0f answer tokens on average\n", t.Name, t.Format, d.Turns, d.Sessions,
		float64(d.Prompt)/float64(d.Turns), float64(d.Output)/float64(d.Turns))
	fmt.Fprintf(w, "%d endpoints; load %.2f of their %.1f requests a second with an unlimited cache, which would find %.1f %%", len(f.Endpoints), p.Load,
		f.Capacity(d), 100*d.IdealHitRate())
	if t.Closed {
		fmt.Fprintf(w, "; a session begins every %s\n", p.Gap.Round(time.Millisecond))
	} else {
		fmt.Fprintf(w, "; recorded times × %.3g\n", p.Stretch)
	}
}

// printFigures shows all policies side by side.
func printFigures(w io.Writer, runs []*simulation) {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options.SeparateColumns = false
	t.AppendHeader(table.Row{"policy", "ids", "TTFT mean", "p50", "p90", "p99", "e2e p90", "ITL p50", "hit %", "work CV", "first CV", "home %", "queue", "good %", "util", "failed", "s"})
	for _, s := range runs {
		f := &s.figures
		ids := "no"
		if f.IDs {
			ids = "yes"
		}
		t.AppendRow(table.Row{
			f.Policy, ids, whole(f.TTFT.Mean), whole(f.TTFT.P50), whole(f.TTFT.P90), whole(f.TTFT.P99), whole(f.E2E.P90), fmt.Sprintf("%.1f", f.ITL.P50),
			percent(f.HitRate), fmt.Sprintf("%.3f", f.WorkCV), fmt.Sprintf("%.3f", f.FirstTurnCV), percent(f.HomeShare), fmt.Sprintf("%.1f", f.QueueMean),
			percent(f.Goodput), fmt.Sprintf("%.2f", f.Utilisation), f.Failed, fmt.Sprintf("%.1f", f.WallS),
		})
	}
	right := make([]table.ColumnConfig, 15)
	for i := range right {
		right[i] = table.ColumnConfig{Number: i + 3, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	t.SetColumnConfigs(right)
	fmt.Fprintln(w, t.Render())
	fmt.Fprintf(w, "Times in ms, good within %s and %s. An unlimited cache and perfect routing would hit %s %%.\n", runs[0].slo.TTFT, runs[0].slo.ITL, percent(runs[0].figures.IdealHitRate))
}

func whole(x float64) string   { return fmt.Sprintf("%.0f", x) }
func percent(x float64) string { return fmt.Sprintf("%.1f", 100*x) }

// write writes the files that the flags ask for, each whole or not at all.
func (o *simulateOptions) write(e env, runs []*simulation) error {
	if o.json != "" {
		all := make([]sim.Figures, len(runs))
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
			_, err := e.stdout.Write(out.Bytes())
			return err
		}
		if err := writeWhole(o.json, out.Bytes()); err != nil {
			return err
		}
	}
	if o.report == "" {
		return nil
	}
	page, err := htmlReport(runs)
	if err != nil {
		return err
	}
	return writeWhole(o.report, page)
}

// writable reports whether there is a folder for a file, before a long run ends in vain.
func writable(flag, name string) error {
	if name == "" || name == "-" {
		return nil
	}
	if at, err := os.Stat(name); err == nil && at.IsDir() {
		return fmt.Errorf("%s: %s is a folder", flag, name)
	}
	if at, err := os.Stat(filepath.Dir(name)); err != nil || !at.IsDir() {
		return fmt.Errorf("%s: there is no folder %s", flag, filepath.Dir(name))
	}
	return nil
}

// writeWhole writes a file beside its place first, so that nobody ever sees half of it.
func writeWhole(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
