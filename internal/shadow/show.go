package shadow

import (
	"fmt"
	"io"
	"strings"

	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/route/shadow"
)

// Show prints for people what shadows would have done in the acting policy's place, and what if each had decided all
// along.
func (r *Report) Show(w io.Writer) {
	others := "1 other policy"
	if n := len(r.Shadows); n != 1 {
		others = fmt.Sprintf("%d other policies", n)
	}
	fmt.Fprintf(w, "%s decides; %d decisions were shown to %s\n", r.Policy, r.Decisions, others)
	fmt.Fprint(w, "\nIn its place, one decision at a time:\n\n")
	here := terminal.NewTable(terminal.Bare, "policy", "differs", "by TTFT", "by cost", "cheaper", "saves",
		"loses", "why it differs")
	here.Right(2, 3, 4, 5, 6, 7)
	for i := range r.Shadows {
		s := &r.Shadows[i]
		h := &s.Here
		here.Row(
			s.Policy, share(h.Differs, h.Decisions), signed(h.TTFTMs, h.Priced), signed(h.CostMs, h.Priced),
			share(h.Cheaper, h.Priced), each(h.SavesMs, h.Decisions), each(h.LosesMs, h.Decisions), reasons(s),
		)
	}
	fmt.Fprintln(w, here)
	fmt.Fprint(w, "\nHad each decided all along, as estimated (compare these rows only):\n\n")
	apart := terminal.NewTable(terminal.Bare, "policy", "turns", "TTFT mean", "p50", "p90", "p99", "cached", "at home")
	apart.RightFrom(2)
	row := func(name string, x *shadow.World) {
		apart.Row(
			name, x.Turns, each(x.TTFTMs, x.Turns), millisOf(x.P50Ms), millisOf(x.P90Ms), millisOf(x.P99Ms),
			share(x.CachedTokens, x.PromptTokens), share(x.Home, x.Later),
		)
	}
	row(r.Policy+" (decides)", &r.Acting)
	for i := range r.Shadows {
		row(r.Shadows[i].Policy, &r.Shadows[i].Apart)
	}
	fmt.Fprintln(w, apart)
	if r.Failed != "" {
		fmt.Fprintf(w, "a policy has failed, and none is asked any more: %s\n", r.Failed)
	}
	if r.Late > 0 {
		fmt.Fprintf(w,
			"%d turns of conversations whose beginning was not seen are left out of the second table\n", r.Late)
	}
	if n := r.Skipped + r.Dropped; n > 0 {
		fmt.Fprintf(w, "%d decisions were not looked at: the budget is %.3g of a core (shadow.budget), "+
			"one conversation in %.0f is looked at now\n", n, r.Budget, 1/r.Share)
	}
}

// reasons are why a shadow's choices differ, the most frequent first in number, at most three.
func reasons(s *shadow.PolicyReport) string {
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
