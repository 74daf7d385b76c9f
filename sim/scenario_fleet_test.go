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
	simdrive "github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

// scenario is a fleet and what it has to serve.
type scenario struct {
	name   string
	fleet  []engine.Config
	joins  int           // so many endpoints, the last ones, join
	joinAt time.Duration // then
	clears time.Duration // when the first engine restarts unseen; 0 for never
	work   trace.Workload
	whole  float64                                                  // share of answers that are not streamed
	talks  func(w trace.Workload, seed uint64) []trace.Conversation // nil for those that the workload draws
}

func (s *scenario) conversations(seed uint64) []trace.Conversation {
	if s.talks != nil {
		return s.talks(s.work, seed)
	}
	return s.work.Conversations(seed)
}

// router is one way to decide.
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

// rivals are those that least_ttft, which is told no ids, is measured against.
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

// report is what an engine of the fleet tells a probe.
func report(c engine.Config) fleet.Report {
	return fleet.Report{
		Healthy: true, Models: []fleet.Model{{ID: "m"}},
		CacheTokens: int64(c.CacheTokens), Slots: c.Slots, BlockTokens: c.BlockTokens,
	}
}

var start = time.Unix(1_000_000, 0)

// run plays the scenario.
func (s *scenario) run(t testing.TB, by router, seed uint64) []simdrive.Turnout {
	t.Helper()
	_, turns := s.play(t, by, seed)
	return turns
}

// play is run, and returns the router and its engines too, as they are at the end.
func (s *scenario) play(t testing.TB, by router, seed uint64, heard ...func(*route.Entry)) (*simdrive.Drive, []simdrive.Turnout) {
	t.Helper()
	d := simdrive.Drive{Router: route.New(route.Config{Policy: by.make, PolicyName: by.name, Queue: policy.Queue(policy.Config{Name: by.name})}), Model: "m", Start: start, Seed: seed, IDs: by.ids, Whole: s.whole}
	if len(heard) > 0 {
		d.Heard = heard[0]
	}
	var specs []fleet.Endpoint
	for i, c := range s.fleet {
		e, err := engine.New(c, seed+uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint("e", i)
		d.Engines, d.Names = append(d.Engines, e), append(d.Names, name)
		specs = append(specs, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1})
	}
	declare := func(now time.Time, n int) {
		d.Observe(now, route.Declared{Source: "sim", Endpoints: specs[:n]})
		for i := range n {
			d.Observe(now, route.Probed{Endpoint: specs[i].Name, Report: report(s.fleet[i])})
		}
	}
	declare(start, len(specs)-s.joins)
	if s.joins > 0 {
		d.Incidents = append(d.Incidents, simdrive.Incident{At: s.joinAt, Do: func(now time.Time) { declare(now, len(specs)) }})
	}
	if s.clears > 0 {
		d.Incidents = append(d.Incidents, simdrive.Incident{At: s.clears, Do: func(now time.Time) { d.Restart(now, 0) }})
	}
	turns := d.Play(s.work, s.conversations(seed))
	if st := d.Router.Stats(); st.Leases != 0 || st.DoubleFinished != 0 {
		t.Errorf("%s by %s: at the end: %+v", s.name, by.name, st)
	}
	return &d, turns
}

// figures sum up the turns of a scenario by one router.
type figures struct {
	hit, mean, p50, p90, p99 float64 // share of prompt tokens; ms
	cv                       float64 // of the endpoints' first turns
	good                     float64 // share of turns whose first token came within two seconds
	rate                     float64 // answer tokens a second, from the first turn to the last answer
	failed                   int
}

func sum(turns []simdrive.Turnout, endpoints int) figures {
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
	f.hit, f.mean, f.good = float64(cached)/float64(prompt), f.mean/n, f.good/float64(len(turns))
	f.rate = float64(answer) / end.Sub(begin).Seconds()
	ms := func(q float64) float64 { return simdrive.Quantile(turns, q).Seconds() * 1000 }
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

// pooled are the figures of several seeds' turns taken together; the variation of first turns is the mean of theirs.
func (s *scenario) pooled(t testing.TB, by router, seeds ...uint64) (figures, []simdrive.Turnout) {
	t.Helper()
	var all []simdrive.Turnout
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

func inOrder(talks []trace.Conversation) []trace.Conversation {
	slices.SortStableFunc(talks, func(a, b trace.Conversation) int { return int(a.Start - b.Start) })
	return talks
}
