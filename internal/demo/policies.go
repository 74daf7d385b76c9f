package demo

import (
	"context"
	"fmt"
	"io"

	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/sim/trace"
)

// policies shows a policy beside round robin, on two fleets alike.
type policies struct{ o *Options }

func (p policies) fleets() []named {
	var out []named
	for _, who := range [][2]string{{"warmpath", p.o.Policy}, {"round_robin", "round_robin"}} {
		out = append(out, named{who[0], Fleet{Policy: who[1], Endpoints: endpoints("engine", "", p.o.Engines)}})
	}
	return out
}

func (p policies) traffic() []trace.Generator {
	w := trace.Chats()
	w.PerSecond = p.o.Rate
	return []trace.Generator{w}
}

// play plays the conversations to all sides at the same times.
func (p policies) play(ctx context.Context, sides []*side) { playAll(ctx, sides, p.traffic(), p.o) }

func (p policies) introduce(w io.Writer, sides []*side) {
	s := sides[0]
	fmt.Fprintf(w, `warmpath demo: %d simulated engines behind warmpath (%s), the same again
behind round robin. Conversations of several turns begin %.3g times a second; each
turn repeats the conversation so far.

Try it:   curl -s %s/v1/chat/completions \
            -H 'Content-Type: application/json' \
            -d '{"model":"demo","messages":[{"role":"user","content":"Hello"}]}'
Metrics:  %s/metrics    Status page: %s/

`, len(s.engines), p.o.Policy, p.o.Rate, s.router.URL, s.router.AdminURL, s.router.AdminURL)
}

func (p policies) line(sides []*side) string {
	return scoreLine(sides[0]) + "\n      " + scoreLine(sides[1])
}

func scoreLine(s *side) string {
	v := s.score.Summary()
	return fmt.Sprintf("%s: %d requests, %d failed, TTFT p50 %.0f p90 %.0f ms, hit %.1f %%",
		s.name, v.Requests, v.Failed, v.TTFT.P50, v.TTFT.P90, 100*v.HitRate)
}

// table is the scores of both sides.
func (p policies) table(sides []*side) string {
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

// figures are those of --json.
func (p policies) figures(sides []*side) any {
	return map[string]play.Summary{sides[0].name: sides[0].score.Summary(), sides[1].name: sides[1].score.Summary()}
}

func (p policies) conclude(w io.Writer, sides []*side) {
	fmt.Fprintln(w, p.table(sides))
	a, b := sides[0].score.Summary(), sides[1].score.Summary()
	if a.TTFT.Mean > 0 && b.TTFT.Mean > 0 {
		fmt.Fprintf(w,
			"Mean time to first token: %.0f ms with warmpath, %.0f ms with round robin\n(%.1f times as long).\n",
			a.TTFT.Mean, b.TTFT.Mean, b.TTFT.Mean/a.TTFT.Mean)
	}
	complain(w, a, b)
	fmt.Fprintln(w, "\nIn front of your own engines: warmpath serve http://HOST:PORT ...\n"+
		"warmpath doctor http://HOST:PORT examines one first.")
}
