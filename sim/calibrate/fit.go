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

// Endpoint is the engine model fitted to an endpoint's recorded traffic.
type Endpoint struct {
	Endpoint string
	Engine   engine.Config // the given engine with all fitted and probed values replaced
	Fixed    time.Duration // time to first token beyond prefill and steps: network, tokenizing, scheduling
	Requests int           // recorded, with a first token
	Prefills int           // periods of uninterrupted prefill used for the fit
	Decodes  int           // answers used for the fit of steps
	Outliers float64       // 0..1, share of both without weight in the fit
	TTFT     float64       // median relative error of a prefill period's duration
	ITL      float64       // median relative error of an answer's mean gap between tokens
	Notes    []string      // for display: what could not be fitted
}

const (
	leastFit  = 5      // observations needed for a fit
	fitRounds = 5      // prefill and steps are fitted alternately, each with the other subtracted
	fitCut    = 32_768 // tokens after which a long prefill period is cut, to get more observations
	// share of an answer's time spent on other prefill; answers with more are used only if there are too few others
	mostBusy = 0.4
)

// Fit finds each endpoint's prefill rate, fixed time, step base and step per sequence. The model (engine.Config)
// computes prompts one after another beside the running answers, so that
//
//   - from a prompt's arrival at an idle endpoint to the last first token before it is idle again takes the fixed time,
//     the uncached tokens over the rate, and the steps;
//   - an answer takes one step per token: the base, an amount per sequence in it, and other prefill.
//
// Both fits are robust: up to half of the observations may be outliers. Probed values are used as they are; base
// supplies the rest. The result is sorted by endpoint name.
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

// fit is the fit of one endpoint.
type fit struct {
	out      Endpoint
	requests []trace.Recorded
	slots    int // from probes; 0 unknown

	firsts, ends []float64 // of all answers, s, sorted
	upto         []float64 // end of each answer at the engine: the recorded end, unless that is much too late
	running      ramp      // running answers, integrated over time
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

// take applies probed values.
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

// room makes the engine large enough for what it was observed to hold.
func (f *fit) room(all []trace.Recorded) {
	c := &f.out.Engine
	longest := 0
	for _, q := range all {
		longest = max(longest, q.Prompt+q.Output)
	}
	if c.Blocks()*c.BlockTokens < longest {
		c.CacheTokens = (longest + c.BlockTokens - 1) / c.BlockTokens * c.BlockTokens
		f.note("its cache size is unknown; assumed to hold its longest request")
	}
	most := 0
	for _, t := range f.firsts {
		most = max(most, f.active(t))
	}
	if f.slots == 0 && most > c.Slots {
		c.Slots = most
		f.note("its slots are unknown; assumed to be the most concurrent requests observed")
	}
}

func (f *fit) note(format string, args ...any) {
	f.out.Notes = append(f.out.Notes, fmt.Sprintf(format, args...))
}

// active is the number of answers running at a time.
func (f *fit) active(t float64) int { return after(f.firsts, t) - after(f.ends, t) }

// after is the number of values in a sorted list that are not after t.
func after(sorted []float64, t float64) int {
	n, _ := slices.BinarySearchFunc(sorted, t, func(x, t float64) int {
		if x <= t {
			return -1
		}
		return 1
	})
	return n
}

// rates fits prefill and steps alternately.
func (f *fit) rates() {
	f.busy()
	f.windows()
	f.out.Prefills, f.out.Decodes = len(f.prefills), len(f.answers)
	if len(f.prefills) < leastFit {
		f.note("%d prefills are too few to fit a rate; that of the given engine is used", len(f.prefills))
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
		c.StepBase, c.StepPerSeq = max(time.Duration(f.base*1e9).Round(time.Microsecond), time.Microsecond),
			time.Duration(f.perSeq*1e9).Round(100*time.Nanosecond)
	} else {
		f.note("%d answers are too few to fit steps; those of the given engine are used", len(f.answers))
	}
	f.quality()
}
