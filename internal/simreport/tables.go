package simreport

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/internal/terminal"
)

// Tables shows all policies side by side: how long turns took, and what was done where.
func Tables(w io.Writer, runs []*simrun.Run) {
	// Five tables, so that each fits a terminal of 80 columns.
	waits := figuresTable("policy", "ids", "TTFT mean", "p50", "p90", "p99", "regret", "good %", "failed")
	answers := figuresTable("policy", "e2e mean", "p50", "p90", "p99", "ITL mean", "p50", "p90", "p99")
	places := figuresTable("policy", "hit %", "expected", "home %", "work CV", "max/min", "first CV")
	shares := figuresTable("policy", "requests CV", "least/mean", "output tok/s", "TTFT p95", "s")
	costs := figuresTable("policy", "gap p50", "p90", "p99", "queue", "most", "evicted", "util", "router MB")
	for _, s := range runs {
		f := &s.Figures
		ids := "no"
		if f.IDs {
			ids = "yes"
		}
		waits.Row(
			s.Title(), ids, whole(f.TTFT.Mean), whole(f.TTFT.P50), whole(f.TTFT.P90), whole(f.TTFT.P99),
			whole(f.RegretMean), percent(f.Goodput), f.Failed,
		)
		answers.Row(
			s.Title(), whole(f.E2E.Mean), whole(f.E2E.P50), whole(f.E2E.P90), whole(f.E2E.P99),
			fmt.Sprintf("%.1f", f.ITL.Mean), fmt.Sprintf("%.1f", f.ITL.P50), fmt.Sprintf("%.1f", f.ITL.P90),
			fmt.Sprintf("%.1f", f.ITL.P99),
		)
		places.Row(
			s.Title(), percent(f.HitRate), percent(f.Predicted), percent(f.HomeShare), fmt.Sprintf("%.3f", f.WorkCV),
			maxMin(f.WorkMaxMin), fmt.Sprintf("%.3f", f.FirstTurnCV),
		)
		shares.Row(
			s.Title(), fmt.Sprintf("%.3f", f.RequestsCV), fmt.Sprintf("%.3f", f.LeastMean), whole(f.OutputPerS),
			whole(f.TTFT.P95), fmt.Sprintf("%.1f", f.WallS),
		)
		costs.Row(
			s.Title(), fmt.Sprintf("%.1f", f.Gap.P50), fmt.Sprintf("%.1f", f.Gap.P90), fmt.Sprintf("%.1f", f.Gap.P99),
			fmt.Sprintf("%.1f", f.QueueMean), f.QueueMax, f.Evictions, fmt.Sprintf("%.2f", f.Utilisation),
			megabytes(f.RouterBytes),
		)
	}
	for _, t := range []*terminal.Table{waits, answers, places, shares, costs} {
		fmt.Fprintln(w, t)
	}
	writeConversations(w, runs)
	writeMisses(w, runs)
	writeTenants(w, runs)
	writeSplit(w, runs)
	legend(w, runs)
	verdict(w, runs)
}

// maxMin is the most over the least, which nothing is where that is 0.
func maxMin(x float64) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", x)
}

// Fewest shows, for each of the kinds of run, the replay with the fewest endpoints of which share is good, or none: nil
// in found. No search tried more than most endpoints.
func Fewest(w io.Writer, kinds, found []*simrun.Run, share float64, most int) {
	t := terminal.NewTable(terminal.Wide, "policy", "endpoints", "good %", "TTFT mean", "p50", "p90", "p99", "hit %")
	t.RightFrom(1)
	for i, s := range found {
		if s == nil {
			t.Row(kinds[i].Title(), "none", "", "", "", "", "", "")
			continue
		}
		f := &s.Figures
		t.Row(
			s.Title(), f.Endpoints, percent(f.Goodput), whole(f.TTFT.Mean), whole(f.TTFT.P50), whole(f.TTFT.P90),
			whole(f.TTFT.P99), percent(f.HitRate),
		)
	}
	slo := kinds[0].SLO
	fmt.Fprintln(w, t)
	fmt.Fprintf(w,
		"The fewest endpoints with which %.4g %% of turns are good: TTFT within %s, mean ITL within %s. Times in ms.\n",
		100*share, slo.TTFT, slo.ITL)
	if slices.Contains(found, nil) {
		fmt.Fprintf(w, "none: with twice as many it is no better (or %d are too few). A longer --slo-ttft, "+
			"a smaller --slo-share or a faster --engine can be kept.\n", most)
	}
}

// writeMisses says for which causes prompts were not in the cache, where that was asked.
func writeMisses(w io.Writer, runs []*simrun.Run) {
	t, some := figuresTable("policy", "why not cached", "turns", "tokens"), false
	for _, s := range runs {
		for _, m := range s.Figures.Misses {
			some = true
			t.Row(s.Title(), m.Cause, m.Turns, m.Tokens)
		}
	}
	if some {
		fmt.Fprintln(w, t)
	}
}

// legend says what the columns mean that do not say it themselves.
func legend(w io.Writer, runs []*simrun.Run) {
	slo := runs[0].SLO
	for _, line := range []string{
		"Times in ms. TTFT: time to first token; e2e: to the last; ITL: mean gap between tokens; gap: every gap.",
		fmt.Sprintf(
			"good: TTFT within %s and mean ITL within %s. regret: how much sooner the best endpoint would have begun.",
			slo.TTFT, slo.ITL),
		"hit: prompt tokens found cached; expected: by the router. home: later turns sent where the turn before was.",
		"CV: standard deviation over mean, over endpoints, of computed tokens (work), first turns and requests.",
		"least/mean: requests of the least used endpoint. queue, most: requests waiting in the engine, mean and most.",
		"evicted: blocks. util: share of the fleet's capacity. s: seconds to compute this. docs/simulate.md has more.",
		fmt.Sprintf("An unlimited cache and perfect routing would hit %s %%.", percent(runs[0].Figures.IdealHitRate)),
	} {
		fmt.Fprintln(w, line)
	}
}

// verdict names the run with the shortest mean and p90 time to first token, and how far the next one is.
func verdict(w io.Writer, runs []*simrun.Run) {
	real := slices.DeleteFunc(slices.Clone(runs), func(s *simrun.Run) bool { return s.Replay.Oracle })
	if len(real) < 2 {
		return
	}
	for _, f := range []struct {
		name string
		of   func(s *simrun.Run) float64
	}{
		{"mean", func(s *simrun.Run) float64 { return s.Figures.TTFT.Mean }},
		{"p90", func(s *simrun.Run) float64 { return s.Figures.TTFT.P90 }},
	} {
		slices.SortStableFunc(real, func(a, b *simrun.Run) int { return cmp.Compare(f.of(a), f.of(b)) })
		first, next := real[0], real[1]
		if f.of(first) <= 0 {
			continue
		}
		fmt.Fprintf(w, "Shortest %s TTFT: %s, %s ms; next %s, %.2f times that.\n",
			f.name, first.Title(), whole(f.of(first)), next.Title(), f.of(next)/f.of(first))
	}
	failed := 0
	for _, s := range runs {
		failed = max(failed, s.Figures.Failed)
	}
	if failed > 0 {
		fmt.Fprintln(w, "Turns that failed are in no time above: compare the column failed first.")
	}
}

// writeConversations shows how whole conversations went, where so many are under way at a time.
func writeConversations(w io.Writer, runs []*simrun.Run) {
	if runs[0].Replay.Clients == 0 {
		return
	}
	t := figuresTable("policy", "slowest p50", "p90", "p99", "whole mean", "p90", "ended/h", "set %")
	for _, s := range runs {
		f := &s.Figures
		t.Row(
			s.Title(), whole(f.Slowest.P50), whole(f.Slowest.P90), whole(f.Slowest.P99), whole(f.Whole.Mean),
			whole(f.Whole.P90), whole(f.EndedPerH), percent(f.WorkingSet),
		)
	}
	fmt.Fprintln(w, t)
	fmt.Fprintln(w,
		"slowest: TTFT of each conversation's slowest turn. whole: from its first request to its last answer.")
	fmt.Fprintln(w,
		"set: the latest prompts of those under way, as a share of the caches, without the first quarter of the run.")
}

// mostTenants is how many tenants the tables show.
const mostTenants = 20

// writeTenants shows what each tenant saw, where there are several.
func writeTenants(w io.Writer, runs []*simrun.Run) {
	if !slices.ContainsFunc(runs, func(s *simrun.Run) bool { return len(s.Figures.PerTenant) > 0 }) {
		return
	}
	t := figuresTable("policy", "tenant", "requests", "failed", "hit %", "TTFT mean", "p50", "p90", "p95", "p99")
	for _, s := range runs {
		for i, f := range s.Figures.PerTenant {
			if i == mostTenants {
				t.Row(s.Title(), fmt.Sprintf("and %d more", len(s.Figures.PerTenant)-i))
				break
			}
			t.Row(s.Title(), f.Name, f.Requests, f.Failed, percent(f.HitRate), whole(f.TTFT.Mean), whole(f.TTFT.P50),
				whole(f.TTFT.P90), whole(f.TTFT.P95), whole(f.TTFT.P99))
		}
	}
	fmt.Fprintln(w, t)
}

// writeSplit shows what was split and what it took, where the fleet has roles.
func writeSplit(w io.Writer, runs []*simrun.Run) {
	if !slices.ContainsFunc(runs, func(s *simrun.Run) bool { return s.Figures.Split != nil }) {
		return
	}
	legs := figuresTable("policy", "split %", "moved", "% of prompts", "prefill p50", "p90")
	transfers := figuresTable("policy", "transfer p50", "p90", "p99", "handed p50", "p90", "p99", "step", "p90")
	pools := figuresTable("policy", "pool", "prompts", "answers", "whole", "hit %", "busy %")
	var why []string
	for _, s := range runs {
		f := s.Figures.Split
		if f == nil { // nothing could be split there
			continue
		}
		legs.Row(
			s.Title(), percent(f.Share), whole(f.Moved), percent(f.MovedShare), whole(f.Prefill.P50),
			whole(f.Prefill.P90),
		)
		transfers.Row(
			s.Title(), whole(f.Transfer.P50), whole(f.Transfer.P90), whole(f.Transfer.P99),
			whole(f.Handed.P50), whole(f.Handed.P90), whole(f.Handed.P99), whole(f.FirstToken.P50),
			whole(f.FirstToken.P90),
		)
		for _, p := range f.Pools {
			pools.Row(s.Title(), fmt.Sprintf("%d %s", p.Endpoints, p.Role), p.Prompts, p.Answers, p.Whole,
				percent(p.HitRate), percent(p.Busy))
		}
		var words []string
		for _, y := range f.Why {
			words = append(words, fmt.Sprintf("%s %d", y.Why, y.Turns))
		}
		why = append(why, s.Title()+": "+strings.Join(words, ", "))
	}
	fmt.Fprintln(w, legs)
	fmt.Fprintln(w, transfers)
	fmt.Fprintln(w, pools)
	fmt.Fprintln(w, "Why: "+strings.Join(why, ";\n")+".")
}

// figuresTable is a table whose columns but the first are figures.
func figuresTable(headings ...string) *terminal.Table {
	t := terminal.NewTable(terminal.Wide, headings...)
	t.RightFrom(2)
	return t
}
