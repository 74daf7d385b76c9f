package play

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/terminal"
)

// Watch shows the progress of a run with that many turns until done: in one line that is drawn over where w is a live
// terminal.
func (s *Score) Watch(w io.Writer, live bool, turns int, done <-chan struct{}) {
	every := 5 * time.Second
	if live {
		every = 250 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			if live {
				terminal.ClearLine(w)
			}
			return
		case <-tick.C:
			v := s.Summary()
			what, l := "TTFT", v.TTFT
			if l == (Latency{}) {
				what, l = "answers", v.Took
			}
			text := fmt.Sprintf("%d of %d turns, %d failed, %s p50 %.0f ms, hit %.1f %%",
				v.Requests, turns, v.Failed, what, l.P50, 100*v.HitRate)
			if live {
				terminal.Line(w, text)
			} else {
				fmt.Fprintln(w, text)
			}
		}
	}
}

// Show prints them for people.
func (f *LoopFigures) Show(w io.Writer) {
	s := &f.Slowest
	fmt.Fprintf(w, "%.0f output tokens/s, %d sessions ended (%.0f an hour)\n", f.Output, f.Ended, f.PerHour)
	fmt.Fprintf(w, "slowest turn of a session until its first token: p50 %.1f s, p90 %.1f s, p99 %.1f s\n",
		s.P50/1000, s.P90/1000, s.P99/1000)
	if f.All {
		fmt.Fprintln(w,
			"no session was left to begin towards the end: for a longer run give --repeat or more --conversations")
	}
}

// Show prints the score of a run with that many turns, for people.
func (v *Summary) Show(w io.Writer, turns int, took time.Duration) {
	fmt.Fprintf(w, "%d of %d turns in %s, %d failed\n", v.Requests, turns, took.Round(100*time.Millisecond), v.Failed)
	if s := took.Seconds(); s > 0 && v.Requests > v.Failed {
		fmt.Fprintf(w, "%.1f requests/s, %.0f prompt tokens/s, %.0f answer tokens/s\n",
			float64(v.Requests)/s, float64(v.PromptTokens)/s, float64(v.AnswerTokens)/s)
	}
	if v.Left > 0 {
		fmt.Fprintf(w, "%d left by their clients, %d of them before the first token, and asked again; "+
			"times and hit rate are of the other turns\n", v.Left, v.LeftEarly)
	}
	if v.LastError != "" {
		fmt.Fprintf(w, "last failure: %s\n", v.LastError)
		if strings.Contains(v.LastError, "context") && strings.Contains(v.LastError, "tokens") {
			fmt.Fprintln(w, "Shorter conversations: --system-tokens 200 --user-tokens 50 --turns 3")
		}
	}
	if v.Failed == v.Requests {
		return
	}
	if v.Took == (Latency{}) {
		fmt.Fprintln(w, "times and hit rate unknown: no client stayed")
		return
	}
	t := terminal.NewTable(terminal.Framed, "times in ms", "mean", "p50", "p90", "p99")
	for _, r := range []struct {
		name string
		l    Latency
	}{{"time to first token", v.TTFT}, {"inter-token latency", v.ITL}, {"until the end of the answer", v.Took}} {
		if r.l == (Latency{}) { // nothing was streamed
			continue
		}
		t.Row(r.name, fmt.Sprintf("%.1f", r.l.Mean), fmt.Sprintf("%.1f", r.l.P50), fmt.Sprintf("%.1f", r.l.P90),
			fmt.Sprintf("%.1f", r.l.P99))
	}
	fmt.Fprintln(w, t)
	fmt.Fprintf(w, "token hit rate %.1f %%\n", 100*v.HitRate)
	if len(v.Shares) == 0 {
		fmt.Fprintln(w, "balance unknown: the answers do not say who gave them (see --endpoint-header)")
		return
	}
	fmt.Fprintf(w, "work CV %.2f, first-turn CV %.2f over the endpoints that answered: %d\n",
		v.WorkCV, v.FirstTurnCV, len(v.Shares))
	for _, s := range v.Shares {
		fmt.Fprintf(w, "  %-24s %s  %d turns\n", s.Endpoint, terminal.Bar(s.Work), s.Requests)
	}
}
