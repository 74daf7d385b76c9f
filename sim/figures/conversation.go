package figures

import (
	"time"

	"github.com/warmpath/warmpath/sim/drive"
)

// conversationsOf adds the figures of whole conversations, each with those that it started.
func conversationsOf(r *drive.Replay, o *drive.Outcome, f *Figures) {
	t := r.Trace
	root := func(s int) int {
		for t.Sessions[s].Parent >= 0 {
			s = t.Sessions[s].Parent
		}
		return s
	}
	type family struct {
		slowest, begun, over time.Duration
		seen                 bool
		ended                int
	}
	all, turns := make([]family, len(t.Sessions)), make([]int, len(t.Sessions))
	for i := range t.Turns {
		turns[root(t.Turns[i].Session)]++
	}
	take := func(p *drive.Played, ended bool) {
		x := &all[root(t.Turns[p.Turn].Session)]
		if p.Failed || p.Left {
			return
		}
		if !x.seen {
			x.begun, x.seen = p.Sent, true
		}
		x.slowest = max(x.slowest, p.TTFT)
		if ended {
			x.ended++
			x.over = max(x.over, p.Sent+p.Took)
		}
	}
	for i := range o.Turns {
		take(&o.Turns[i], true)
	}
	for i := range o.Cut {
		take(&o.Cut[i], false)
	}
	var slowest, whole []time.Duration
	for i, x := range all {
		if !x.seen {
			continue
		}
		slowest = append(slowest, x.slowest)
		if x.ended == turns[i] {
			whole = append(whole, x.over-x.begun)
		}
	}
	f.Slowest, f.Whole, f.Ended = spread(slowest), spread(whole), len(whole)
	f.EndedPerH = rounded(ratio(float64(len(whole)), o.Span.Hours()), 1)
}
