package figures

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/sim/drive"
)

// workingSet is the latest prompts of the conversations under way, over all caches: its mean over time, without the
// first quarter of the run, in which they grow. 0 where a cache has no limit.
func workingSet(r *drive.Replay, o *drive.Outcome) float64 {
	room := 0.0
	for i := range r.Fleet.Endpoints {
		size := r.Fleet.Endpoints[i].Engine.CacheTokens
		if size <= 0 {
			return 0
		}
		room += float64(size)
	}
	type change struct {
		at     time.Duration
		tokens int
	}
	t := r.Trace
	left, prompt := make([]int, len(t.Sessions)), make([]int, len(t.Sessions)) // turns to come, and the latest prompt
	for i := range t.Sessions {
		left[i] = t.Sessions[i].Turns
	}
	changes := make([]change, 0, len(o.Turns)+len(o.Cut)+len(t.Sessions))
	take := func(p *drive.Played, ended bool) {
		if p.Left {
			return // it is asked again
		}
		turn := &t.Turns[p.Turn]
		changes = append(changes, change{p.Sent, turn.Prompt - prompt[turn.Session]})
		prompt[turn.Session] = turn.Prompt
		if !ended {
			return
		}
		if left[turn.Session]--; left[turn.Session] == 0 {
			changes = append(changes, change{p.Sent + p.Took, -turn.Prompt})
		}
	}
	for i := range o.Turns {
		take(&o.Turns[i], true)
	}
	for i := range o.Cut { // the last of their conversations
		take(&o.Cut[i], false)
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	from, sum, tokens, since := o.Span/4, 0.0, 0, time.Duration(0)
	for _, c := range append(changes, change{at: o.Span}) {
		at := min(c.at, o.Span)
		sum += float64(tokens) * float64(max(at-max(since, from), 0))
		tokens, since = tokens+c.tokens, at
	}
	return ratio(sum, float64(o.Span-from)*room)
}
