package grid

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
	simfigures "github.com/warmpath/warmpath/sim/figures"
)

// measured is a policy in a cell.
type measured struct {
	policy  string
	figures []simfigures.Figures // by seed
	p90s    []float64            // ms, by seed
	p90     interval
	hit     interval
}

func (m *measured) of(what func(f *simfigures.Figures) float64) []float64 {
	out := make([]float64, len(m.figures))
	for i := range m.figures {
		out[i] = what(&m.figures[i])
	}
	return out
}

func (m *measured) mean(what func(f *simfigures.Figures) float64) float64 {
	return intervalOf(m.of(what)).mean
}

// verdict says how the default stands against the best of the others in p90 of the time to first token.
type verdict string

// The verdicts, best first.
const (
	verdictBest   verdict = "best"   // no other has a lower mean
	verdictWithin verdict = "within" // at most 5 % above the best
	verdictOpen   verdict = "open"   // further above, but the interval of the ratio reaches down to 5 %
	verdictBehind verdict = "behind" // further above, by all of the interval
)

// margin is how far above the best the default may be.
const margin = 1.05

// hitMargin is how far below the best hit rate the default may be. firstTurnMost is the first-turn CV that it may have
// on an even fleet whose endpoints have firstTurns first turns each, or more.
const (
	hitMargin     = 0.01
	firstTurnMost = 0.10
	firstTurns    = 100
)

// judged is what a cell says of the default policy.
type judged struct {
	cell     Cell
	policies []*measured // lowest p90 first
	ours     *measured   // nil when it was not measured
	best     *measured   // of the others without the oracle; nil when there are none
	ratio    interval    // of our p90 to that of best
	verdict  verdict

	keenest  *measured // the highest hit rate of the others
	hitGap   float64   // of keenest over ours
	hitRatio interval  // of our p90 to that of keenest
	hitOK    bool      // within a point of it, at an equal or lower p90 (or the interval of the ratio reaches 1)

	hitFair bool // no policy with a p90 no higher than ours finds over a point more

	spread   float64 // our highest first-turn CV of all seeds
	spreadOn bool    // an even fleet with enough first turns to judge it
	equals   []equal // simple policies as good, or better
}

// equal is a simple policy whose p90 is at most 5 % above ours.
type equal struct {
	policy string
	ratio  interval // of its p90 to ours
}

// simple are the policies that need neither prompts nor predictions.
func simple(name string) bool {
	return name != policy.Default && name != drive.OracleName && !slices.Contains(policy.RivalNames(), name)
}

// judge compares, cell by cell.
func judge(cells []Cell, runs []*run) []*judged {
	var out []*judged
	for _, c := range cells {
		j := &judged{cell: c}
		for _, r := range runs {
			if r.Cell != c || r.result == nil {
				continue
			}
			if n := len(j.policies); n == 0 || j.policies[n-1].policy != r.Policy {
				j.policies = append(j.policies, &measured{policy: r.Policy})
			}
			m := j.policies[len(j.policies)-1]
			m.figures = append(m.figures, r.result.Figures)
		}
		for _, m := range j.policies {
			m.p90s = m.of(func(f *simfigures.Figures) float64 { return f.TTFT.P90 })
			m.p90, m.hit = intervalOf(m.p90s), intervalOf(m.of(func(f *simfigures.Figures) float64 {
				return f.HitRate
			}))
		}
		j.compare()
		out = append(out, j)
	}
	return out
}

func (j *judged) compare() {
	slices.SortStableFunc(j.policies, func(a, b *measured) int { return cmp.Compare(a.p90.mean, b.p90.mean) })
	for _, m := range j.policies {
		switch {
		case m.policy == policy.Default:
			j.ours = m
		case m.policy == drive.OracleName:
		default:
			if j.best == nil {
				j.best = m
			}
			if j.keenest == nil || m.hit.mean > j.keenest.hit.mean {
				j.keenest = m
			}
		}
	}
	if j.ours == nil || j.best == nil {
		return
	}
	j.compareTimes()
	j.compareHits()
	j.measureSpread()
}

// bestBy is the other policy with the best figure, the oracle left out.
func (j *judged) bestBy(c column) (best *measured) {
	for _, m := range j.policies {
		if m != j.ours && m.policy != drive.OracleName && (best == nil || c.better(m.mean(c.of), best.mean(c.of))) {
			best = m
		}
	}
	return best
}

func (j *judged) compareTimes() {
	j.ratio = ratioOf(j.ours.p90s, j.best.p90s)
	switch {
	case j.ours.p90.mean <= j.best.p90.mean:
		j.verdict = verdictBest
	case j.ratio.mean <= margin:
		j.verdict = verdictWithin
	case j.ratio.low <= margin:
		j.verdict = verdictOpen
	default:
		j.verdict = verdictBehind
	}
	for _, m := range j.policies {
		if r := ratioOf(m.p90s, j.ours.p90s); simple(m.policy) && r.mean <= margin {
			j.equals = append(j.equals, equal{m.policy, r})
		}
	}
}

func (j *judged) compareHits() {
	j.hitGap = j.keenest.hit.mean - j.ours.hit.mean
	j.hitRatio = ratioOf(j.ours.p90s, j.keenest.p90s)
	j.hitOK = j.hitGap <= hitMargin && j.hitRatio.low <= 1
	j.hitFair = true
	for _, m := range j.policies {
		if m.policy != drive.OracleName && m.p90.mean <= j.ours.p90.mean && m.hit.mean-j.ours.hit.mean > hitMargin {
			j.hitFair = false
		}
	}
}

func (j *judged) measureSpread() {
	least := math.Inf(1)
	for i := range j.ours.figures {
		f := &j.ours.figures[i]
		total := 0
		for _, e := range f.PerEndpoint {
			total += e.FirstTurns
		}
		least = min(least, float64(total)/float64(f.Endpoints))
		j.spread = max(j.spread, f.FirstTurnCV)
	}
	j.spreadOn = j.cell.Fleet == fleetEven && least >= firstTurns
}

// score counts verdicts.
type score struct {
	cells, best, within, open, behind int
	hits, fairHits                    int // cells with hitOK and with hitFair
	spreads, spreadOK                 int // cells where the first-turn CV counts, and where it is low enough

	logs float64 // sum of the logarithms of our p90 as a multiple of the best other's
}

// ratio is our p90 as a multiple of the best other's in each cell: the geometric mean.
func (s score) ratio() float64 { return math.Exp(s.logs / float64(s.cells)) }

func scoreOf(cells []*judged) score {
	var s score
	for _, j := range cells {
		if j.verdict == "" {
			continue
		}
		s.cells++
		s.logs += math.Log(j.ratio.mean)
		switch j.verdict {
		case verdictBest:
			s.best++
		case verdictWithin:
			s.within++
		case verdictOpen:
			s.open++
		case verdictBehind:
			s.behind++
		}
		if j.hitOK {
			s.hits++
		}
		if j.hitFair {
			s.fairHits++
		}
		if j.spreadOn {
			s.spreads++
			if j.spread < firstTurnMost {
				s.spreadOK++
			}
		}
	}
	return s
}

// standing is a policy beside the default over the cells where both were measured. Times to first token are the
// policy's over the default's in the same cell, as geometric means over cells.
type standing struct {
	policy              string
	mean, p50, p90, p99 float64
	traces              map[string]float64 // p90 by trace
	hit                 float64            // hit rate above the default's, the mean over cells
	cells, lower        int                // cells measured, and those with a p90 below the default's
}

// beside is the standing of every other policy, the lowest p90 first; the oracle is left out.
func beside(cells []*judged) []standing {
	by := map[string][]*judged{}
	for _, j := range cells {
		for _, m := range j.policies {
			if j.ours != nil && m != j.ours && m.policy != drive.OracleName {
				by[m.policy] = append(by[m.policy], j)
			}
		}
	}
	var out []standing
	for name, of := range by {
		out = append(out, standingOf(name, of))
	}
	slices.SortFunc(out, func(a, b standing) int {
		return cmp.Or(cmp.Compare(a.p90, b.p90), cmp.Compare(a.policy, b.policy))
	})
	return out
}

func standingOf(name string, cells []*judged) standing {
	s := standing{policy: name, traces: map[string]float64{}, cells: len(cells)}
	theirs := func(j *judged) *measured {
		return j.policies[slices.IndexFunc(j.policies, func(m *measured) bool { return m.policy == name })]
	}
	ratio := func(cells []*judged, of func(t *simfigures.Spread) float64) float64 {
		logs := 0.0
		for _, j := range cells {
			ttft := func(f *simfigures.Figures) float64 { return of(&f.TTFT) }
			logs += math.Log(theirs(j).mean(ttft) / j.ours.mean(ttft))
		}
		return math.Exp(logs / float64(len(cells)))
	}
	p90 := func(t *simfigures.Spread) float64 { return t.P90 }
	s.mean = ratio(cells, func(t *simfigures.Spread) float64 { return t.Mean })
	s.p50 = ratio(cells, func(t *simfigures.Spread) float64 { return t.P50 })
	s.p90 = ratio(cells, p90)
	s.p99 = ratio(cells, func(t *simfigures.Spread) float64 { return t.P99 })
	for _, trace := range tracesOf(cells) {
		s.traces[trace] = ratio(slices.DeleteFunc(slices.Clone(cells), func(j *judged) bool {
			return j.cell.Trace != trace
		}), p90)
	}
	for _, j := range cells {
		s.hit += (theirs(j).hit.mean - j.ours.hit.mean) / float64(len(cells))
		if theirs(j).p90.mean < j.ours.p90.mean {
			s.lower++
		}
	}
	return s
}

// byRank puts ours first, then the simple, then those of others, then the oracle; within each by name.
func byRank(a, b string) int {
	rank := func(n string) int {
		switch {
		case n == policy.Default:
			return 0
		case n == drive.OracleName:
			return 3
		case simple(n):
			return 1
		}
		return 2
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}
