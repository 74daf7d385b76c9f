package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

// Endpoint is an engine's speed as recorded traffic shows it.
type Endpoint struct {
	Endpoint string
	Engine   engine.Config // the given one, with what could be found out in its place
	Fixed    time.Duration // to the first token beyond prefill and steps: network, tokenizing, scheduling
	Requests int           // recorded, with a first token
	Prefills int           // times without a pause in prefill that the rate was fitted to
	Decodes  int           // answers that the steps were fitted to
	Outliers float64       // 0..1, share of both that the fit does not explain and gives no weight
	TTFT     float64       // median relative error of the time a prefill takes
	ITL      float64       // median relative error of an answer's mean gap between tokens
	Notes    []string      // what could not be found out, for people
}

const (
	leastFit  = 5      // observations that a fit needs
	fitRounds = 5      // prefill and steps are fitted in turns, each with the other taken out
	fitCut    = 32_768 // tokens after which a long time of prefill is cut, to give more observations
	mostBusy  = 0.4    // share of an answer's time that others' prefill may take, where there are enough answers without
)

// Fit finds each endpoint's prefill rate, fixed time, step base and step per sequence. An engine computes prompts one after the
// other beside the answers under way (the model of Config), so that
//
//   - from a prompt's arrival at an idle endpoint to the last first token before it is idle again it takes the fixed time, the
//     uncached tokens over the rate, and its steps;
//   - an answer takes a step for each token: the base, so much more for each sequence in it, and others' prefill.
//
// Both are fitted robustly: up to half of the observations may be wrong. What probes found out is taken over; base has the rest.
// The order is that of endpoint names.
func Fit(r *trace.Recording, base engine.Config) []Endpoint {
	var names []string
	of := map[string][]trace.Recorded{}
	for _, q := range r.Requests {
		if _, known := of[q.Endpoint]; !known {
			names = append(names, q.Endpoint)
		}
		of[q.Endpoint] = append(of[q.Endpoint], q)
	}
	slices.Sort(names)
	out := make([]Endpoint, len(names))
	for i, name := range names {
		f := newFit(name, of[name], base)
		if at := slices.IndexFunc(r.Engines, func(e trace.RecordedEngine) bool { return e.Endpoint == name }); at >= 0 {
			f.take(&r.Engines[at])
		}
		f.rates()
		f.room(of[name])
		out[i] = f.out
	}
	return out
}

// fit is one endpoint's.
type fit struct {
	out      Endpoint
	requests []trace.Recorded
	slots    int // when probes have told

	firsts, ends []float64 // of all answers, s, sorted
	upto         []float64 // when the engine ended each request's answer: when it ended, unless that came much too late
	running      ramp      // answers under way, summed over time
	prefilled    ramp      // prompt tokens computed by a time
	prefills     []prefill
	answers      []answer

	perToken, base, perSeq, fixed float64 // s
}

func newFit(name string, all []trace.Recorded, base engine.Config) *fit {
	f := &fit{out: Endpoint{Endpoint: name, Engine: base}}
	for _, q := range all {
		if q.Data && q.Stream && !q.Split {
			f.requests = append(f.requests, q)
		}
	}
	f.out.Requests = len(f.requests)
	slices.SortStableFunc(f.requests, func(a, b trace.Recorded) int { return cmp.Compare(a.First, b.First) })
	for i := range f.requests {
		q := &f.requests[i]
		f.firsts, f.upto = append(f.firsts, q.First.Seconds()), append(f.upto, q.End.Seconds())
	}
	f.gather()
	return f
}

// take takes over what probes found out.
func (f *fit) take(e *trace.RecordedEngine) {
	c := &f.out.Engine
	if e.BlockTokens > 0 && e.BlockTokens <= e.CacheTokens {
		c.BlockTokens = e.BlockTokens
	}
	if e.CacheTokens > 0 {
		c.CacheTokens = max(e.CacheTokens, c.BlockTokens)
	}
	if e.Slots > 0 {
		c.Slots, f.slots = e.Slots, e.Slots
	}
	if c.CacheTokens/c.BlockTokens > engine.MaxBlocks {
		c.BlockTokens = c.CacheTokens/engine.MaxBlocks + 1
	}
}

// room sees that the engine can hold what it was seen to hold.
func (f *fit) room(all []trace.Recorded) {
	c := &f.out.Engine
	longest := 0
	for _, q := range all {
		longest = max(longest, q.Prompt+q.Output)
	}
	if c.Blocks()*c.BlockTokens < longest {
		c.CacheTokens = (longest + c.BlockTokens - 1) / c.BlockTokens * c.BlockTokens
		f.note("its cache is not known, and made as large as its longest request")
	}
	most := 0
	for _, t := range f.firsts {
		most = max(most, f.active(t))
	}
	if f.slots == 0 && most > c.Slots {
		c.Slots = most
		f.note("its slots are not known, and as many as requests were seen at once")
	}
}

func (f *fit) note(format string, args ...any) {
	f.out.Notes = append(f.out.Notes, fmt.Sprintf(format, args...))
}

// active is how many answers are under way at a time.
func (f *fit) active(t float64) int { return after(f.firsts, t) - after(f.ends, t) }

// after is how many of a sorted list are not after t.
func after(sorted []float64, t float64) int {
	n, _ := slices.BinarySearchFunc(sorted, t, func(x, t float64) int {
		if x <= t {
			return -1
		}
		return 1
	})
	return n
}

// rates fits prefill and steps in turns.
func (f *fit) rates() {
	f.busy()
	f.windows()
	f.out.Prefills, f.out.Decodes = len(f.prefills), len(f.answers)
	if len(f.prefills) < leastFit {
		f.note("%d prefills are too few to fit a rate to: it is that of the kind", len(f.prefills))
		return
	}
	c := &f.out.Engine
	f.base, f.perSeq = 0, 0
	for round := range fitRounds {
		f.fitPrefill()
		if round == 0 || len(f.answers) >= leastFit {
			f.fitSteps()
		}
		f.company()
	}
	c.PrefillTokensPerSecond = math.Round(float64(1/max(f.perToken, 1e-9)*10)) / 10
	f.out.Fixed = time.Duration(f.fixed * 1e9).Round(time.Microsecond)
	if len(f.answers) >= leastFit {
		c.StepBase, c.StepPerSeq = max(time.Duration(f.base*1e9).Round(time.Microsecond), time.Microsecond), time.Duration(f.perSeq*1e9).Round(100*time.Nanosecond)
	} else {
		f.note("%d answers are too few to fit steps to: they are those of the kind", len(f.answers))
	}
	f.quality()
}
