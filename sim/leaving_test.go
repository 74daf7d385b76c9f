package sim_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/trace"
)

// TestLeaving: clients of 15 % of the turns leave within five seconds, before or after the first token, and ask again a
// second later. The others' turns find as much in caches, and wait as long for their first tokens, as with clients that
// stay and give the engines as much work in the same time: what is computed for those who have left is lost.
// docs/scenarios.md has the figures.
func TestLeaving(t *testing.T) {
	if racing {
		t.Skip("it runs in one goroutine: the race detector finds nothing here")
	}
	all := scenarios()
	shown := func(s scenario) bool {
		return !slices.Contains([]string{"table", "uneven", "hot_prefix", "bursts", "full_caches", "tenants"}, s.name)
	}
	all = slices.DeleteFunc(all, shown)
	page := tableOf(t, "../docs/scenarios.md", "go test ./sim -run TestLeaving -long -rewrite",
		"| Scenario | Left, before the first token | More work | Found in caches | as much work | some leave | Mean "+
			"/ p90 | as much work | some leave |", namesOf(all))
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var l leaving
			for _, seed := range fewOf([]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 8) {
				l.play(t, &s, seed)
			}
			l.check(t)
			if !*allSeeds {
				return
			}
			cells := []string{
				fmt.Sprintf("%s, %s", thousands(float64(l.left)), thousands(float64(l.before))),
				fmt.Sprintf("%.1f %%", 100*(l.more/12-1)),
			}
			for _, run := range l.runs {
				cells = append(cells, fmt.Sprintf("%.1f %%", 100*hitRate(run)))
			}
			for _, run := range l.runs {
				cells = append(cells,
					thousands(1e3*mean(run).Seconds())+" / "+thousands(1e3*quantile(run, 0.9).Seconds()))
			}
			page.add(s.name, cells...)
		})
	}
}

// leaving is the turns whose clients stay in any case, in three runs: with clients that all stay, with those that give
// as much work, and with some that leave.
type leaving struct {
	runs         [3][]turnout
	left, before int // turns that were left, and before their first token
	// sum over seeds of the work with some that leave, as a multiple of that with clients that stay
	more float64
}

func (l *leaving) play(t *testing.T, s *scenario, seed uint64) {
	t.Helper()
	var runs [3]*drive.Outcome
	runs[0], _ = s.play(t, ours(t), seed)
	runs[2], _ = s.play(t, ours(t), seed, func(r *drive.Replay) { r.Leaves = 0.15 })
	more := s.workOf(runs[2]) / s.workOf(runs[0])
	runs[1], _ = s.play(t, ours(t), seed, func(r *drive.Replay) { r.Speed = more })
	l.more += more
	gone := map[int]bool{}
	for _, x := range runs[2].Turns {
		if x.Left {
			gone[x.Turn] = true
			l.left++
			if x.TTFT == 0 {
				l.before++
			}
		}
	}
	turns := trace.Of(s.conversations(seed), true).Turns
	for i, o := range runs {
		for _, x := range o.Turns {
			if x.Failed {
				t.Errorf("turn %d failed", x.Turn)
			}
			if !gone[x.Turn] {
				l.runs[i] = append(l.runs[i], turnout{
					TTFT: x.TTFT, PromptTokens: turns[x.Turn].Prompt, CachedTokens: x.Cached,
				})
			}
		}
	}
}

// workOf is the time that the engines' work takes, in ns.
func (s *scenario) workOf(o *drive.Outcome) (ns float64) {
	for i, e := range o.Engines {
		ns += s.fleet[i].Work(int64(e.PrefillTokens), int64(e.OutputTokens))
	}
	return ns
}

// check allows p90 what seeds differ by.
func (l *leaving) check(t *testing.T) {
	t.Helper()
	same, some := l.runs[1], l.runs[2]
	if l.before == 0 || l.before == l.left {
		t.Errorf("of %d turns that were left %d were before their first token", l.left, l.before)
	}
	if got, want := hitRate(some), hitRate(same); got < 0.99*want {
		t.Errorf("%.4f of the tokens are found in caches, %.4f with as much work and clients that stay", got, want)
	}
	if got, want := quantile(some, 0.9), quantile(same, 0.9); float64(got) > 1.08*float64(want) {
		t.Errorf("p90 is %v, %v with as much work and clients that stay", got, want)
	}
}
