package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/route"
)

// TestNewID: is_first_turn is true once for each id, the same for every attempt of a request, and false without an id.
func TestNewID(t *testing.T) {
	x := newReviewed(t, nil, "a", "b", "c")
	newID := func(req route.Request) bool {
		req.Model, req.Stream = "m", true
		d := x.route(req)
		x.end(d, route.OK)
		return d.NewID
	}
	for i, step := range []struct {
		req  route.Request
		want bool
	}{
		{route.Request{Session: "s"}, true},
		{route.Request{Session: "s", Tried: []string{"a"}}, true}, // the same turn, tried again
		{route.Request{Session: "s"}, false},
		{route.Request{Session: "s", Tried: []string{"a"}}, false},
		{route.Request{Session: "s", Tenant: "t"}, true}, // another tenant's
		{route.Request{MintedID: "minted"}, false},       // no id
		{route.Request{Session: "minted"}, false},        // taken up: the conversation has been there
		{route.Request{Session: "e", Class: route.Embed}, false},
		{route.Request{Session: "e"}, true}, // what is no turn does not count
	} {
		if got := newID(step.req); got != step.want {
			t.Errorf("step %d, %+v: %v, want %v", i, step.req, got, step.want)
		}
	}
}

// TestNewIDOfBothLegs: both legs of a split request, and a leg that is decided again, say the same.
func TestNewIDOfBothLegs(t *testing.T) {
	r := route.New(route.Config{
		Policy: func() route.Policy { return leastWork{} }, PolicyName: "p", Disaggregation: route.Disaggregation{When: route.WhenAlways},
	})
	now := time.Unix(0, 0)
	var all []route.Endpoint
	for name, role := range map[string]route.Role{"p1": route.RolePrefill, "p2": route.RolePrefill, "d": route.RoleDecode} {
		all = append(all, route.Endpoint{Name: name, URL: "http://" + name, Weight: 1, Role: role, Models: []string{"m"}})
	}
	r.Observe(now, route.Declared{Source: "s", Endpoints: all})
	for _, e := range all {
		r.Observe(now, route.Probed{Endpoint: e.Name, Report: route.Report{Healthy: true}})
	}
	for turn, want := range []bool{true, false} {
		req := route.Request{Model: "m", Session: "s", Splits: true, PromptBytes: 4000}
		plan, err := r.Decide(now, &req)
		if err != nil || !plan.Split() {
			t.Fatalf("%+v, %v", plan, err)
		}
		req.Leg, req.Decoder, req.TriedPrefill = route.LegPrefill, plan.Endpoint.Name, []string{plan.Prefill.Endpoint.Name}
		again, err := r.Decide(now, &req)
		if err != nil {
			t.Fatal(err)
		}
		if plan.NewID != want || plan.Prefill.NewID != want || again.Prefill.NewID != want {
			t.Errorf("turn %d: %v, %v and, again, %v; want %v", turn+1, plan.NewID, plan.Prefill.NewID, again.Prefill.NewID, want)
		}
		for _, l := range []route.Lease{plan.Lease, plan.Prefill.Lease, again.Prefill.Lease} {
			r.Observe(now, route.Finished{Lease: l})
		}
	}
}
