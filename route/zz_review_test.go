package route_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/route"
)

type leastWork struct{}

func (leastWork) Pick(v *route.View, _ *route.Request) route.Choice {
	best := 0
	for i := range v.Candidates {
		if v.Candidates[i].Load.Work() < v.Candidates[best].Load.Work() {
			best = i
		}
	}
	return route.Choice{Index: best, Reason: "least"}
}

func zFleet(t *testing.T, names ...string) (*route.Router, *time.Time) {
	now := time.Unix(1000, 0)
	r := route.New(route.Config{Policy: func() route.Policy { return leastWork{} }, PolicyName: "least"})
	d := route.Declared{Source: "s"}
	for _, n := range names {
		d.Endpoints = append(d.Endpoints, route.Endpoint{Name: n, URL: "http://" + n, Weight: 1})
	}
	r.Observe(now, d)
	for _, n := range names {
		r.Observe(now, route.Probed{Endpoint: n, Report: route.Report{Healthy: true, Models: []route.Model{{ID: "m"}}}})
	}
	return r, &now
}

func zRoute(t *testing.T, r *route.Router, now time.Time, req route.Request) route.Decision {
	t.Helper()
	d, err := r.Route(now, &req)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestZTrialEndsAtFirstByte(t *testing.T) {
	r, now := zFleet(t, "a", "b")
	for range 3 {
		d := zRoute(t, r, *now, route.Request{Model: "m", Pin: "a"})
		r.Observe(*now, route.Finished{Lease: d.Lease, Outcome: route.EngineError})
	}
	*now = now.Add(2 * time.Second)
	d := zRoute(t, r, *now, route.Request{Model: "m", Pin: "a"})
	r.Observe(*now, route.FirstByte{Lease: d.Lease}) // streams for ten minutes
	*now = now.Add(5 * time.Minute)
	got := map[string]int{}
	for range 50 {
		got[zRoute(t, r, *now, route.Request{Model: "m", PromptBytes: 1000}).Endpoint.Name]++
	}
	if got["a"] == 0 {
		t.Errorf("five minutes after its trial's first byte, a gets nothing: %v", got)
	}
}

func TestZAsideDoesNotAbsolve(t *testing.T) {
	r, now := zFleet(t, "a", "b")
	for range 10 {
		d := zRoute(t, r, *now, route.Request{Model: "m", Pin: "a"})
		r.Observe(*now, route.Finished{Lease: d.Lease, Outcome: route.TimedOut})
		d = zRoute(t, r, *now, route.Request{Class: route.Aside, Pin: "a"})
		r.Observe(*now, route.Finished{Lease: d.Lease, Outcome: route.ClientError})
	}
	if s := r.Status(*now)[0]; s.State != route.StateEjected {
		t.Errorf("%s after 10 turns timed out, because 10 asides were refused in between", s.State)
	}
}

func TestZAdapterHotSpot(t *testing.T) {
	r, now := zFleet(t, "a", "b")
	models := []route.Model{{ID: "m"}, {ID: "l", Parent: "m"}}
	r.Observe(*now, route.Probed{Endpoint: "a", Report: route.Report{Healthy: true, Models: models, Load: &route.LoadReport{Adapters: []string{"l"}}}})
	r.Observe(*now, route.Probed{Endpoint: "b", Report: route.Report{Healthy: true, Models: models, Load: &route.LoadReport{Adapters: []string{}}}})
	got := map[string]int{}
	for range 500 {
		got[zRoute(t, r, *now, route.Request{Model: "l", PromptBytes: 40_000}).Endpoint.Name]++
	}
	if got["b"] == 0 {
		t.Errorf("500 outstanding prompts of 10,000 tokens: %v", got)
	}
}

func TestZAdapterAliasHotSpot(t *testing.T) {
	now := time.Unix(1000, 0)
	r := route.New(route.Config{Policy: func() route.Policy { return leastWork{} }, PolicyName: "least", Aliases: []route.Alias{{Name: "chat", Models: []string{"base", "l"}}}})
	r.Observe(now, route.Declared{Source: "s", Endpoints: []route.Endpoint{{Name: "a", URL: "http://a", Weight: 1}, {Name: "b", URL: "http://b", Weight: 1}, {Name: "c", URL: "http://c", Weight: 1}}})
	for _, n := range []string{"a", "b"} {
		r.Observe(now, route.Probed{Endpoint: n, Report: route.Report{Healthy: true, Models: []route.Model{{ID: "base"}}}})
	}
	r.Observe(now, route.Probed{Endpoint: "c", Report: route.Report{Healthy: true, Models: []route.Model{{ID: "l", Parent: "x"}}, Load: &route.LoadReport{Adapters: []string{"l"}}}})
	got := map[string]int{}
	for range 12 {
		d := zRoute(t, r, now, route.Request{Model: "chat", PromptBytes: 4000})
		got[d.Endpoint.Name]++
		r.Observe(now, route.Finished{Lease: d.Lease})
	}
	if got["a"]+got["b"] == 0 {
		t.Errorf("an alias over base models and an adapter: %v", got)
	}
}

func TestZPoolsBound(t *testing.T) {
	r, now := zFleet(t, "a")
	for i := range 10 {
		id := fmt.Sprintf("lora-%d", i)
		r.Observe(*now, route.Probed{Endpoint: "a", Report: route.Report{Healthy: true, Models: []route.Model{{ID: "m"}, {ID: id, Parent: "m"}}}})
		d := zRoute(t, r, *now, route.Request{Model: id})
		r.Observe(*now, route.Finished{Lease: d.Lease})
	}
}

func TestZFirstTurnOnRetry(t *testing.T) {
	r, now := zFleet(t, "a", "b")
	d := zRoute(t, r, *now, route.Request{Model: "m", Session: "s"})
	r.Observe(*now, route.Finished{Lease: d.Lease, Outcome: route.ConnectFailed})
	d2 := zRoute(t, r, *now, route.Request{Model: "m", Session: "s", Tried: []string{d.Endpoint.Name}})
	if d.FirstTurn != d2.FirstTurn {
		t.Errorf("first turn %v, of its retry %v", d.FirstTurn, d2.FirstTurn)
	}
}

func TestZOldAddressBlamesNew(t *testing.T) {
	r, now := zFleet(t, "a", "b")
	var ds []route.Decision
	for range 3 {
		ds = append(ds, zRoute(t, r, *now, route.Request{Model: "m", Pin: "a"}))
	}
	r.Observe(*now, route.Declared{Source: "s", Endpoints: []route.Endpoint{{Name: "a", URL: "http://new", Weight: 1}, {Name: "b", URL: "http://b", Weight: 1}}})
	r.Observe(*now, route.Probed{Endpoint: "a", Report: route.Report{Healthy: true, Models: []route.Model{{ID: "m"}}}})
	for _, d := range ds {
		r.Observe(*now, route.Finished{Lease: d.Lease, Outcome: route.EngineError})
	}
	if s := r.Status(*now)[0]; s.State != route.StateUp {
		t.Errorf("the engine at the new address is %s for what the old one did", s.State)
	}
}

func TestZStaleWarmthAfterRestart(t *testing.T) {
	r, now := zFleet(t, "a", "b")
	d := zRoute(t, r, *now, route.Request{Model: "m", Session: "s", PromptBytes: 40000})
	r.Observe(*now, route.FirstByte{Lease: d.Lease})
	r.Observe(*now, route.Finished{Lease: d.Lease, Usage: route.Usage{PromptTokens: 10000, OutputTokens: 100}})
	r.Observe(*now, route.Probed{Endpoint: d.Endpoint.Name, Report: route.Report{Refused: true}})
	*now = now.Add(30 * time.Second)
	r.Observe(*now, route.Probed{Endpoint: d.Endpoint.Name, Report: route.Report{Healthy: true}})
	d2 := zRoute(t, r, *now, route.Request{Model: "m", Session: "s", PromptBytes: 42000, Pin: d.Endpoint.Name})
	if d2.CachedTokens != 0 {
		t.Errorf("predicts %d cached tokens on an engine that was refused connections (restarted) in between", d2.CachedTokens)
	}
}
