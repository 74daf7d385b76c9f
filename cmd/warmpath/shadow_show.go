package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/warmpath/warmpath/internal/shadow"
	"github.com/warmpath/warmpath/shadow"
)

// explainShadow prints what the shadows of a running router found.
func explainShadow(ctx context.Context, e env, o explainOptions) error {
	var r shadow.Report
	if err := askAdmin(ctx, o, "/admin/shadow", url.Values{}, &r); err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(e.stdout).Encode(&r)
	}
	showShadow(e.stdout, &r)
	return nil
}

// showShadow prints what shadows would have done in the acting policy's place, and what if each had decided all along.
func showShadow(w io.Writer, r *shadow.Report) {
	fmt.Fprintf(w, "%s decides; %d decisions were shown to %d others\n", r.Policy, r.Decisions, len(r.Shadows))
	fmt.Fprint(w, "\nIn its place, one decision at a time:\n\n")
	here := shadowTable("policy", "differs", "by TTFT", "by cost", "cheaper", "saves", "loses", "why it differs")
	for i := range r.Shadows {
		s := &r.Shadows[i]
		h := &s.Here
		here.AppendRow(table.Row{
			s.Policy, share(h.Differs, h.Decisions), signed(h.TTFTMs, h.Priced), signed(h.CostMs, h.Priced), share(h.Cheaper, h.Priced),
			each(h.SavesMs, h.Decisions), each(h.LosesMs, h.Decisions), reasons(s),
		})
	}
	fmt.Fprintln(w, here.Render())
	fmt.Fprint(w, "\nHad each decided all along, by our own estimates (compare the rows with each other only):\n\n")
	apart := shadowTable("policy", "turns", "TTFT mean", "p50", "p90", "p99", "cached", "at home")
	row := func(name string, x *shadow.World) {
		apart.AppendRow(table.Row{
			name, x.Turns, each(x.TTFTMs, x.Turns), millisOf(x.P50Ms), millisOf(x.P90Ms), millisOf(x.P99Ms),
			share(x.CachedTokens, x.PromptTokens), share(x.Home, x.Later),
		})
	}
	row(r.Policy+" (decides)", &r.Acting)
	for i := range r.Shadows {
		row(r.Shadows[i].Policy, &r.Shadows[i].Apart)
	}
	fmt.Fprintln(w, apart.Render())
	if r.Failed != "" {
		fmt.Fprintf(w, "a policy has failed, and none is asked any more: %s\n", r.Failed)
	}
	if r.Late > 0 {
		fmt.Fprintf(w, "%d turns of conversations whose beginning was not seen are left out of the second table\n", r.Late)
	}
	if n := r.Skipped + r.Dropped; n > 0 {
		fmt.Fprintf(w, "%d decisions were not looked at: the budget is %.3g of a core (shadow.budget), one conversation in %.0f is looked at now\n", n, r.Budget, 1/r.Share)
	}
}

func shadowTable(head ...any) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(head)
	var columns []table.ColumnConfig
	for i := 1; i < len(head); i++ {
		if head[i] != "why it differs" {
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.SetColumnConfigs(columns)
	return t
}

// reasons are why a shadow's choices differ, the most frequent first in number, at most three.
func reasons(s *shadow.ShadowTold) string {
	var out []string
	left := append([]shadow.Reason{}, s.Why...)
	for len(out) < 3 && len(left) > 0 {
		most := 0
		for i := range left {
			if left[i].Differs > left[most].Differs {
				most = i
			}
		}
		out = append(out, fmt.Sprintf("%s %s", left[most].Reason, share(left[most].Differs, s.Here.Differs)))
		left = append(left[:most], left[most+1:]...)
	}
	return strings.Join(out, ", ")
}

func share(of, in uint64) string {
	if in == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(of)/float64(in))
}

func each(ms float64, n uint64) string {
	if n == 0 {
		return "-"
	}
	return millisOf(ms / float64(n))
}

func signed(ms float64, n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f ms", ms/float64(n))
}

func millisOf(ms float64) string { return fmt.Sprintf("%.1f ms", ms) }
