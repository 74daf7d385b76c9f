package sim_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// scenario is a fleet and its traffic.
type scenario struct {
	name   string
	fleet  []engine.Config
	joins  int            // the last joins endpoints join
	joinAt time.Duration  // at this time
	slow   []rig.Slowdown // of the first engine
	clears time.Duration  // when the first engine restarts unnoticed; 0 for never
	work   trace.Generator
	kinds  []drive.Kind
	whole  float64 // share of non-streamed answers

	unlimited bool // clients do not state the length of their answers
	adapters  bool // each kind of text asks for a model of its own; all endpoints serve both

	talks func(g trace.Generator, seed uint64) []trace.Conversation // nil for those that the workload generates
}

func (s *scenario) conversations(seed uint64) []trace.Conversation {
	if s.talks != nil {
		return s.talks(s.work, seed)
	}
	return s.work.Draw(seed)
}

// router is a policy with its clients' behaviour.
type router struct {
	name string
	ids  bool // its clients send their conversation's id
	make func() pick.Policy
}

func byName(t testing.TB, name string, ids bool) router {
	t.Helper()
	f, err := policy.New(policy.Config{Name: name}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	return router{name, ids, f}
}

// rivals are the competitors of least_ttft without ids.
func rivals(t testing.TB) []router {
	return []router{
		byName(t, "round_robin", true),
		byName(t, "least_tokens", true),
		byName(t, "consistent_hash", true),
		byName(t, "smg.cache_aware", false), // the rule of SMG 1.13
		{"smg_threshold", false, func() pick.Policy { return newSMG() }},
	}
}

func ours(t testing.TB) router { return byName(t, "least_ttft", false) }

// turnout is one turn as its client would see it.
type turnout struct {
	Conversation, Turn int
	Endpoint           int // index in the fleet; -1 for none
	Sent               time.Time
	TTFT, Took         time.Duration
	PromptTokens       int
	CachedTokens       int // reported by the engine
	Predicted          int // predicted by the router
	OutputTokens       int
	Failed             bool
}

var start = time.Unix(1_700_000_000, 0).UTC() // of every run

// run plays the scenario.
func (s *scenario) run(t testing.TB, by router, seed uint64) []turnout {
	t.Helper()
	_, turns := s.play(t, by, seed)
	return turns
}

// play is run, and also returns the final routers. change may change the run.
func (s *scenario) play(
	t testing.TB, by router, seed uint64, change ...func(*drive.Replay),
) (*drive.Outcome, []turnout) {
	t.Helper()
	r := drive.Replay{
		Trace: trace.Of(s.conversations(seed), true), Policy: by.make,
		Queue: policy.Queue(policy.Config{Name: by.name}), Content: true, IDs: by.ids,
		Speed: 1, Seed: seed, Whole: s.whole, Kinds: s.kinds, Limits: !s.unlimited,
		Admission: *admission && policy.Queue(policy.Config{Name: by.name}) != (route.QueueConfig{}),
	}
	if s.adapters {
		s.addAdapter(&r)
	}
	for i, c := range s.fleet {
		e := rig.Endpoint{Name: fmt.Sprint("e", i), Engine: c}
		if i >= len(s.fleet)-s.joins {
			e.Start = s.joinAt
		}
		if i == 0 {
			e.Slowdowns = s.slow
		}
		if i == 0 && s.clears > 0 {
			e.Outages = []rig.Outage{{At: s.clears, For: time.Millisecond}}
		}
		r.Fleet.Endpoints = append(r.Fleet.Endpoints, e)
	}
	for _, change := range change {
		change(&r)
	}
	o, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	if st := o.Routers[0].Stats(); st.Leases != 0 || st.DoubleFinished != 0 {
		t.Errorf("%s by %s: at the end: %+v", s.name, by.name, st)
	}
	turns := make([]turnout, len(o.Turns))
	for i := range o.Turns {
		x := &o.Turns[i]
		q := &r.Trace.Turns[x.Turn]
		turns[i] = turnout{
			q.Session, q.Number, x.Endpoint, start.Add(x.Sent), x.TTFT, x.Took, q.Prompt, x.Cached, x.Predicted,
			q.Output, x.Failed,
		}
	}
	return o, turns
}

// addAdapter has all endpoints serve a second model, which the texts with digits ask for.
func (s *scenario) addAdapter(r *drive.Replay) {
	const adapter = "numbers"
	r.Asked = func(_ int, q *fleet.Request) {
		if q.Content.Text.Digits > 0 {
			q.Model = adapter
		}
	}
	r.Reported = func(_ int, report *fleet.Report) {
		for _, m := range report.Models {
			report.Models = append(report.Models, fleet.Model{ID: adapter, ContextTokens: m.ContextTokens})
		}
	}
}

// quantile is the q-quantile (0..1) of times to first token of served turns, by nearest rank.
func quantile(turns []turnout, q float64) time.Duration {
	var all []time.Duration
	for _, t := range turns {
		if !t.Failed {
			all = append(all, t.TTFT)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

// figures sum up the turns of a scenario under one router.
type figures struct {
	hit, mean, p50, p90, p99 float64 // share of prompt tokens; ms
	cv                       float64 // of the endpoints' first turns
	good                     float64 // share of turns with the first token within two seconds
	rate                     float64 // answer tokens per second, from the first turn to the last answer
	itl                      float64 // p99 of the gaps between tokens, of replayed traces; ms
	last                     float64 // mean time to the last token, ms
	failed                   int
}

func sum(turns []turnout, endpoints int) figures {
	var f figures
	first := make([]float64, endpoints)
	prompt, cached, answer := 0, 0, 0
	var begin, end time.Time
	for i, x := range turns {
		if x.Failed {
			f.failed++
			continue
		}
		prompt, cached, answer = prompt+x.PromptTokens, cached+x.CachedTokens, answer+x.OutputTokens
		f.mean += x.TTFT.Seconds() * 1000
		f.last += x.Took.Seconds() * 1000
		if x.TTFT <= 2*time.Second {
			f.good++
		}
		if x.Turn == 0 {
			first[x.Endpoint]++
		}
		if i == 0 {
			begin = x.Sent
		}
		if e := x.Sent.Add(x.Took); e.After(end) {
			end = e
		}
	}
	n := float64(len(turns) - f.failed)
	f.hit, f.mean, f.last, f.good = float64(cached)/float64(prompt), f.mean/n, f.last/n, f.good/float64(len(turns))
	f.rate = float64(answer) / end.Sub(begin).Seconds()
	ms := func(q float64) float64 { return quantile(turns, q).Seconds() * 1000 }
	f.p50, f.p90, f.p99 = ms(0.5), ms(0.9), ms(0.99)
	f.cv = variation(first)
	return f
}

// variation is the coefficient of variation.
func variation(xs []float64) float64 {
	mean, squares := 0.0, 0.0
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		squares += (x - mean) * (x - mean) / float64(len(xs))
	}
	return math.Sqrt(squares) / mean
}

// pooled are the figures of several seeds' turns together; the variation of first turns is the mean over seeds.
func (s *scenario) pooled(t testing.TB, by router, seeds ...uint64) (figures, []turnout) {
	t.Helper()
	var all []turnout
	cv, rate := 0.0, 0.0
	for _, seed := range seeds {
		turns := s.run(t, by, seed)
		f := sum(turns, len(s.fleet))
		cv, rate = cv+f.cv/float64(len(seeds)), rate+f.rate/float64(len(seeds))
		all = append(all, turns...)
	}
	f := sum(all, len(s.fleet))
	f.cv, f.rate = cv, rate
	return f, all
}

func fleetOf(n int, change func(i int, c *engine.Config)) []engine.Config {
	fleet := make([]engine.Config, n)
	for i := range fleet {
		fleet[i] = engine.DefaultConfig()
		if change != nil {
			change(i, &fleet[i])
		}
	}
	return fleet
}
