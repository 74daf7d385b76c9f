package route_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
)

// brief is least_ttft, and keeps what it saw. seesAll makes it a policy that needs all candidates, and that follows
// another one.
type brief struct {
	pick.Policy
	saw    *pick.View
	follow *string // name of the endpoint to choose; nil to choose itself
}

func (b *brief) Needs() pick.Needs {
	n := b.Policy.Needs()
	n.Shortlist = b.follow == nil
	return n
}

func (b *brief) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	*b.saw = *v
	b.saw.Candidates = slices.Clone(v.Candidates)
	choice := b.Policy.Pick(v, r)
	if b.follow != nil {
		choice.Index = slices.IndexFunc(v.Candidates, func(c pick.Candidate) bool { return c.Name == *b.follow })
	}
	return choice
}

// TestShortlistAgrees: a router that looks at shortlists and one that looks at all, with the same traffic and troubles,
// agree on how many endpoints may take each request, on what the rows say, and on how much is outstanding.
func TestShortlistAgrees(t *testing.T) {
	const endpoints = 40
	var short, whole pick.View
	var chosen string
	newRouter := func(saw *pick.View, follow *string) *route.Router {
		r := route.New(route.Config{
			Policy: func() pick.Policy {
				return &brief{leastttft.New(leastttft.Config{}.WithDefaults()), saw, follow}
			},
			Shortlist: 8, RetryShare: 1,
		})
		d := route.Declared{Source: "s"}
		for i := range endpoints {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{
				Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1 + float64(i%3)/2,
				Models: []string{"m"},
			})
		}
		r.Observe(time.Unix(1000, 0), d)
		for _, e := range d.Endpoints {
			r.Observe(time.Unix(1000, 0), route.Probed{
				Endpoint: e.Name, Report: fleet.Report{Healthy: true, Slots: 16},
			})
		}
		return r
	}
	a, b := newRouter(&short, nil), newRouter(&whole, &chosen)
	type open struct {
		a, b fleet.Lease
		name string
	}
	var leases []open
	rng := rand.New(rand.NewPCG(7, 8))
	now, shorter := time.Unix(1001, 0), 0
	both := func(ev func(l open) route.Event, l open) {
		a.Observe(now, ev(l))
		l.a = l.b
		b.Observe(now, ev(l))
	}
	for i := range 6000 {
		now = now.Add(time.Duration(rng.IntN(40)) * time.Millisecond)
		some := fmt.Sprint("e", rng.IntN(endpoints))
		switch rng.IntN(40) {
		case 0:
			both(func(open) route.Event { return route.Drain{Endpoint: some, Off: i%3 > 0} }, open{})
		case 1:
			healthy := i%4 > 0
			both(func(open) route.Event {
				return route.Probed{Endpoint: some, Report: fleet.Report{Healthy: healthy}}
			}, open{})
		}
		if n := len(leases); n > 0 && (n > 200 || rng.IntN(2) == 0) {
			at := rng.IntN(n)
			l := leases[at]
			leases = slices.Delete(leases, at, at+1)
			outcome := fleet.OK
			switch rng.IntN(60) {
			case 0:
				outcome = fleet.Busy
			case 1:
				outcome = fleet.ConnectFailed
			case 2:
				outcome = fleet.EngineError
			case 3:
				outcome = fleet.ClientGone
			}
			if rng.IntN(4) > 0 {
				both(func(l open) route.Event { return route.FirstByte{Lease: l.a} }, l)
			}
			now = now.Add(20 * time.Millisecond)
			both(func(l open) route.Event {
				return route.Finished{
					Lease: l.a, Outcome: outcome, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 50},
				}
			}, l)
		}
		req := fleet.Request{
			Model: "m", Session: fmt.Sprint("s", rng.IntN(300)), PromptTokens: 1000, Stream: true, Seed: rng.Uint64(),
		}
		if rng.IntN(20) == 0 {
			req.Tried, req.Again = []string{some}, true
		}
		other := req
		p, errA := a.Decide(now, &req)
		chosen = p.Endpoint.Name
		q, errB := b.Decide(now, &other)
		if errA != nil || errB != nil || p.Endpoint.Name != q.Endpoint.Name {
			t.Fatalf("request %d: %s %v and %s %v", i, p.Endpoint.Name, errA, q.Endpoint.Name, errB)
		}
		if p.Candidates != q.Candidates || short.Eligible() != len(whole.Candidates) {
			t.Fatalf("request %d: %d candidates, of all %d", i, p.Candidates, q.Candidates)
		}
		outstanding, all := short.Beyond.Requests, 0
		for j := range whole.Candidates {
			all += whole.Candidates[j].Load.Requests
		}
		for j := range short.Candidates {
			c := &short.Candidates[j]
			outstanding += c.Load.Requests
			k := slices.IndexFunc(whole.Candidates, func(o pick.Candidate) bool { return o.Name == c.Name })
			if k < 0 || slices.Contains(req.Tried, c.Name) {
				t.Fatalf("request %d: %s has a row and may not take it", i, c.Name)
			}
			if o := &whole.Candidates[k]; o.Load != c.Load || o.CachedTokens != c.CachedTokens ||
				o.Weight != c.Weight || differ(o.MsPerToken, c.MsPerToken) || differ(o.WaitMs, c.WaitMs) ||
				o.TurnsPerMs != c.TurnsPerMs || o.Utilisation != c.Utilisation {
				t.Fatalf("request %d: row\n%+v\nof all\n%+v", i, c, o)
			}
		}
		if outstanding != all {
			t.Fatalf("request %d: %d requests are outstanding, %d of all", i, outstanding, all)
		}
		if (short.Home >= 0) != (whole.Home >= 0) ||
			short.Home >= 0 && short.Candidates[short.Home].Name != whole.Candidates[whole.Home].Name {
			t.Fatalf("request %d: the home has row %d, %d of all", i, short.Home, whole.Home)
		}
		if short.Beyond.Count > 0 {
			shorter++
		}
		leases = append(leases, open{p.Lease, q.Lease, p.Endpoint.Name})
	}
	if shorter < 3000 {
		t.Errorf("only %d of the requests had a shortlist", shorter)
	}
}

// differ reports whether two figures differ by more than rounding.
func differ(a, b float64) bool { return math.Abs(a-b) > 1e-9*(1+math.Abs(a)) }

// TestShortlistKnowsPromptSpeeds: endpoints that serve one model as decoders of split requests and another alone are as
// fast for the other as they are at computing prompts: what a transfer takes is no part of it.
func TestShortlistKnowsPromptSpeeds(t *testing.T) {
	var saw pick.View
	newPolicy := func() pick.Policy { return &brief{leastttft.New(leastttft.Config{}.WithDefaults()), &saw, nil} }
	c := route.Config{Policy: newPolicy, Shortlist: 8}
	c.Disaggregation.When, c.Disaggregation.Prefill, c.Disaggregation.Decode = fleet.WhenAlways, newPolicy, newPolicy
	r, now := route.New(c), time.Unix(1000, 0)
	d := route.Declared{Source: "s"}
	for i := range 45 {
		e := fleet.Endpoint{
			Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1, Models: []string{"m1", "m2"},
		}
		if i >= 40 {
			e.Role, e.Models = fleet.RolePrefill, []string{"m1"}
		}
		d.Endpoints = append(d.Endpoints, e)
	}
	r.Observe(now, d)
	for _, e := range d.Endpoints {
		r.Observe(now, route.Probed{Endpoint: e.Name, Report: fleet.Report{Healthy: true}})
	}
	beyond := func() pick.Beyond {
		for i := range 200 { // until each endpoint has had a row
			p, err := r.Decide(now, &fleet.Request{Model: "m2", PromptTokens: 1000, Stream: true, Seed: uint64(i)})
			if err != nil {
				t.Fatal(err)
			}
			r.Observe(now, route.Finished{Lease: p.Lease, Outcome: fleet.Abandoned})
		}
		return saw.Beyond
	}
	want, split := beyond(), 0
	for i := range 200 {
		p, err := r.Decide(now, &fleet.Request{
			Model: "m1", PromptTokens: 1000, Stream: true, Splits: true, Seed: uint64(i),
		})
		if err != nil {
			t.Fatal(err)
		}
		if p.Split() {
			split++
			r.Observe(now, route.Finished{Lease: p.Prefill.Lease, Outcome: fleet.Abandoned})
		}
		r.Observe(now, route.Finished{Lease: p.Lease, Outcome: fleet.Abandoned})
	}
	if p, err := r.Decide(now, &fleet.Request{Model: "m2", PromptTokens: 1000, Stream: true, Seed: 1}); err != nil ||
		split == 0 {
		t.Fatal(p, err, split)
	}
	if got := saw.Beyond; want.Count == 0 || got.Count != want.Count || differ(got.Able, want.Able) ||
		differ(got.Ready, want.Ready) {
		t.Errorf("after %d split requests %d others compute %v tokens a ms, before that %d %v",
			split, got.Count, got.Able, want.Count, want.Able)
	}
}

// TestShortlistKnowsWhatIsLoaded: where engines load models on demand, a request goes to one that has its model in
// memory, also in a pool that is large enough for shortlists.
func TestShortlistKnowsWhatIsLoaded(t *testing.T) {
	r := route.New(route.Config{
		Policy: func() pick.Policy { return leastttft.New(leastttft.Config{}.WithDefaults()) }, Shortlist: 8,
	})
	now, d := time.Unix(1000, 0), route.Declared{Source: "s"}
	for i := range 40 {
		d.Endpoints = append(d.Endpoints, fleet.Endpoint{
			Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1, Models: []string{"m", "n"},
		})
	}
	r.Observe(now, d)
	for i, e := range d.Endpoints {
		loaded := "n"
		if i == 13 {
			loaded = "m"
		}
		r.Observe(now, route.Probed{Endpoint: e.Name, Report: fleet.Report{
			Healthy: true,
			Load:    &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Loaded: []string{loaded}},
		}})
	}
	for i := range uint64(20) {
		p, err := r.Decide(now, &fleet.Request{Class: fleet.Turn, Model: "m", PromptTokens: 10, Seed: i})
		if err != nil || p.Endpoint.Name != "e13" {
			t.Fatalf("request %d goes to %s, %v, want the engine that has its model", i, p.Endpoint.Name, err)
		}
		r.Observe(now, route.FirstByte{Lease: p.Lease})
		r.Observe(now, route.Finished{Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 10, OutputTokens: 2}})
	}
}
