package route_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
)

// costed gives candidate i the cost costs[i] and picks the one at pick. With nil costs it leaves the terms empty.
type costed struct {
	costs  []float64
	others float64
	pick   int
}

func (*costed) Needs() pick.Needs { return pick.Needs{Name: "costed"} }

func (*costed) Hooks() pick.Hooks { return pick.Hooks{} }

func (c *costed) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	for i, cost := range c.costs {
		v.Candidates[i].Terms = pick.Terms{Prefill: cost, Externality: c.others, Spread: 1}
	}
	return pick.Choice{Index: c.pick, Reason: "costed"}
}

// explained is a router that records candidates, with n endpoints that are up.
func explained(p *costed, n int, on bool) (*route.Router, time.Time) {
	now := time.Unix(1000, 0)
	r := route.New(route.Config{Policy: func() pick.Policy { return p }, Explain: on})
	d := route.Declared{Source: "s"}
	for i := range n {
		d.Endpoints = append(d.Endpoints, fleet.Endpoint{
			Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1,
		})
	}
	r.Observe(now, d)
	for i := range n {
		r.Observe(now, route.Probed{
			Endpoint: fmt.Sprint("e", i), Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
	}
	return r, now
}

func turn(id string) *fleet.Request {
	return &fleet.Request{
		ID: id, Class: fleet.Turn, Model: "m", Session: "s-" + id, PromptTokens: 1000, Stream: true, Seed: 1,
	}
}

// end plays a request whose first token comes after ttft.
func end(
	t *testing.T, r *route.Router, now time.Time, q *fleet.Request, ttft time.Duration,
) (route.Decision, *route.Ended) {
	t.Helper()
	d, err := r.Decide(now, q)
	if err != nil {
		t.Fatal(err)
	}
	if ttft > 0 {
		r.Observe(now.Add(ttft), route.FirstByte{Lease: d.Lease})
	}
	return d.Decision, r.Observe(now.Add(time.Second), route.Finished{Lease: d.Lease}).Ended
}

func names(x *route.Ended) (out []string) {
	for i := range x.Candidates {
		out = append(out, x.Candidates[i].Name)
	}
	return out
}

func TestEndedTellsTheBestCandidates(t *testing.T) {
	p := &costed{costs: []float64{50, 30, 40, 10}, pick: 2}
	r, now := explained(p, 4, true)
	d, x := end(t, r, now, turn("1"), 60*time.Millisecond)
	if got := fmt.Sprint(names(x)); got != "[e2 e3 e1 e0]" || d.TTFTMs != 40 || x.Decision.TTFTMs != 40 ||
		x.Home != "" || !x.Stream {
		t.Errorf("got %s, predicted %v", got, d.TTFTMs)
	}
	if c := x.Candidates[0]; c.Terms.Cost() != 41 || c.Load.Requests != 0 {
		t.Errorf("the chosen one: %+v", c)
	}
	if took, ok := x.TTFT(); !ok || took != 60*time.Millisecond {
		t.Errorf("observed %v, %v", took, ok)
	}
	if regret, ok := x.Regret(); !ok || regret != 50 { // 60 ms, and 10 at e3
		t.Errorf("regret %v, %v", regret, ok)
	}
	apart := *x
	// of which 30 are prefill, wherever it is decoded
	apart.Decision.Leg, apart.Decision.TTFTMs = fleet.LegDecode, x.Candidates[0].Terms.TTFT()+30
	if regret, ok := apart.Regret(); !ok || regret != 20 {
		t.Errorf("of a decode leg: regret %v, %v", regret, ok)
	}
	q := turn("1")
	q.ID = "2"
	if _, x = end(t, r, now, q, 5*time.Millisecond); x.Home != "e2" {
		t.Errorf("the conversation's endpoint was %q", x.Home)
	}
	if regret, ok := x.Regret(); !ok || regret != 0 {
		t.Errorf("sooner than anywhere else: regret %v, %v", regret, ok)
	}
}

func TestEndedIsBounded(t *testing.T) {
	const n = 40
	p := &costed{pick: 39}
	for i := range n {
		p.costs = append(p.costs, float64(1+i*17%n))
	}
	r, now := explained(p, n, true)
	_, x := end(t, r, now, turn("1"), 0)
	if len(x.Candidates) != 16 || x.Candidates[0].Name != "e39" {
		t.Fatalf("got %v", names(x))
	}
	for i := 1; i < len(x.Candidates); i++ {
		// costs are 1 to 40, each once; the chosen one has 24
		if got := x.Candidates[i].Terms.Prefill; got != float64(i) {
			t.Errorf("place %d costs %v", i, got)
		}
	}
}

func TestTermsWhereNobodyReckoned(t *testing.T) {
	r, now := explained(&costed{}, 2, true)
	d, x := end(t, r, now, turn("1"), 0)
	if c := x.Candidates[0]; d.TTFTMs <= 0 || c.Terms.TTFT() != d.TTFTMs || c.Terms.Cost() != d.TTFTMs ||
		x.Candidates[1].Terms.TTFT() <= 0 {
		t.Errorf("a policy that does not reckon: %v, %+v", d.TTFTMs, x.Candidates)
	}
	if _, ok := x.TTFT(); ok {
		t.Error("a first token was seen that never came")
	}
	alone, now := explained(&costed{}, 1, true)
	if d, x = end(t, alone, now, turn("1"), time.Millisecond); d.Reason != pick.ReasonOnly || d.TTFTMs <= 0 {
		t.Errorf("no choice: %+v", d)
	}
	if _, ok := x.Regret(); ok {
		t.Error("regret without another candidate")
	}
	q := turn("2")
	q.Stream = false
	if _, x = end(t, r, now, q, time.Millisecond); x.Stream {
		t.Error("a whole answer is told as a stream")
	}
	if _, ok := x.TTFT(); ok {
		t.Error("the first byte of a whole answer was taken for its first token")
	}
	if d, _ := end(t, r, now, &fleet.Request{Class: fleet.Auxiliary, Model: "m", Seed: 1}, 0); d.TTFTMs != 0 {
		t.Errorf("predicted %v ms for what computes nothing", d.TTFTMs)
	}
}

// TestEndedStaysUntilTheNextObservation: a decision in between does not overwrite it.
func TestEndedStaysUntilTheNextObservation(t *testing.T) {
	p := &costed{costs: []float64{10, 20}, pick: 0}
	r, now := explained(p, 2, true)
	_, x := end(t, r, now, turn("1"), 0)
	p.pick, p.costs = 1, []float64{77, 88}
	if _, err := r.Decide(now, turn("2")); err != nil {
		t.Fatal(err)
	}
	if x.Request != "1" || x.Candidates[0].Name != "e0" || x.Candidates[1].Terms.Prefill != 20 {
		t.Errorf("written over: %+v", x.Candidates)
	}
}

func TestExplainingCostsNoMemory(t *testing.T) {
	cost := map[bool]float64{}
	for _, on := range []bool{false, true} {
		r, now := explained(&costed{costs: []float64{10, 20, 30, 40}}, 4, on)
		q := turn("1")
		cost[on] = testing.AllocsPerRun(300, func() {
			d, err := r.Decide(now, q)
			if err != nil {
				t.Fatal(err)
			}
			if x := r.Observe(now, route.Finished{Lease: d.Lease}).Ended; (len(x.Candidates) == 4) != on {
				t.Fatalf("explain %v: %d candidates", on, len(x.Candidates))
			}
		})
	}
	if cost[true] > cost[false] {
		t.Errorf("explaining a decision takes %v allocations, without it %v", cost[true], cost[false])
	}
}

func BenchmarkExplain(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprint(on), func(b *testing.B) {
			p := &costed{}
			for i := range 64 {
				p.costs = append(p.costs, float64(1+i*37%64))
			}
			r, now := explained(p, 64, on)
			q := turn("1")
			b.ReportAllocs()
			for b.Loop() {
				d, err := r.Decide(now, q)
				if err != nil {
					b.Fatal(err)
				}
				r.Observe(now, route.Finished{Lease: d.Lease})
			}
		})
	}
}

// TestTermsCanBeDerived: each term that is explained follows from what is explained with it, whoever filled it in.
func TestTermsCanBeDerived(t *testing.T) {
	chooses := func() pick.Policy { return leastttft.New(leastttft.Config{}.WithDefaults()) }
	for name, tt := range map[string]struct {
		policy func() pick.Policy
		scope  string
	}{
		"least_ttft":             {chooses, route.ScopeOfChoice},
		"a policy without terms": {func() pick.Policy { return &costed{} }, route.ScopeOfRequest},
		"a policy with its formula": {
			func() pick.Policy { return &costed{costs: []float64{1, 2, 3}, others: 4} }, route.ScopeOfPolicy,
		},
	} {
		r, now := route.New(route.Config{Policy: tt.policy, Explain: true}), time.Unix(1000, 0)
		d := route.Declared{Source: "s"}
		for i := range 3 {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{
				Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1 + float64(i),
			})
		}
		r.Observe(now, d)
		for i := range 3 {
			r.Observe(now, route.Probed{
				Endpoint: fmt.Sprint("e", i),
				Report:   fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}, Slots: 4, CacheTokens: 20_000},
			})
		}
		others := 0
		for i := range 40 {
			now = now.Add(50 * time.Millisecond)
			q := turn(fmt.Sprint("r", i))
			q.Session = fmt.Sprint("s", i/3)
			p, err := r.Decide(now, q)
			if err != nil {
				t.Fatal(err)
			}
			r.Observe(now.Add(20*time.Millisecond), route.FirstByte{Lease: p.Lease})
			if i%4 == 0 { // the others stay open
				continue
			}
			e := r.Observe(now.Add(40*time.Millisecond), route.Finished{Lease: p.Lease}).Ended
			if e.Scope != tt.scope || len(e.Costs) != len(e.Candidates) {
				t.Fatalf("%s: scope %q, costs of %d of %d candidates, want %q",
					name, e.Scope, len(e.Costs), len(e.Candidates), tt.scope)
			}
			for k := range e.Candidates {
				c, x := &e.Candidates[k], &e.Costs[k]
				if tt.scope == route.ScopeOfPolicy {
					continue
				}
				if c.Terms.Externality > 0 {
					others++
				}
				for what, is := range map[string][2]float64{
					"others":  {x.Externality.Sum(), c.Terms.Externality},
					"prefill": {x.Uncached * c.MsPerToken, c.Terms.Prefill},
				} {
					if math.Abs(is[0]-is[1]) > 1e-6*max(1, is[1]) {
						t.Errorf("%s, request %d: %s is %v by its parts and %v in the terms",
							name, i, what, is[0], is[1])
					}
				}
			}
		}
		if tt.scope == route.ScopeOfChoice && others == 0 {
			t.Errorf("%s: no placement cost others anything", name)
		}
	}
}
