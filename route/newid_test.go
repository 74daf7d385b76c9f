package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
)

// TestNewID: is_first_turn is true once per id, equal for all attempts of a request, and false without an id.
func TestNewID(t *testing.T) {
	x := newReviewed(t, nil, "a", "b", "c")
	newID := func(req fleet.Request) bool {
		req.Model, req.Stream = "m", true
		d := x.route(req)
		x.end(d, fleet.OK)
		return d.NewID
	}
	for i, step := range []struct {
		req  fleet.Request
		want bool
	}{
		{fleet.Request{Session: "s"}, true},
		{fleet.Request{Session: "s", Tried: []string{"a"}}, true}, // the same turn, retried
		{fleet.Request{Session: "s"}, false},
		{fleet.Request{Session: "s", Tried: []string{"a"}}, false},
		{fleet.Request{Session: "s", Tenant: "t"}, true}, // another tenant
		{fleet.Request{MintedID: "minted"}, false},       // no client id
		{fleet.Request{Session: "minted"}, false},        // sent back by the client: the conversation is known
		{fleet.Request{Session: "e", Class: fleet.Embed}, false},
		{fleet.Request{Session: "e"}, true}, // not a turn, does not count
	} {
		if got := newID(step.req); got != step.want {
			t.Errorf("step %d, %+v: %v, want %v", i, step.req, got, step.want)
		}
	}
}

// TestNewIDOfBothLegs: both legs of a split request, and a repeated leg, report the same.
func TestNewIDOfBothLegs(t *testing.T) {
	r := route.New(route.Config{
		Policy: func() pick.Policy { return leastWork{} }, Disaggregation: route.Disaggregation{When: route.WhenAlways},
	})
	now := time.Unix(0, 0)
	var all []fleet.Endpoint
	for name, role := range map[string]fleet.Role{"p1": fleet.RolePrefill, "p2": fleet.RolePrefill, "d": fleet.RoleDecode} {
		all = append(all, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1, Role: role, Models: []string{"m"}})
	}
	r.Observe(now, route.Declared{Source: "s", Endpoints: all})
	for _, e := range all {
		r.Observe(now, route.Probed{Endpoint: e.Name, Report: fleet.Report{Healthy: true}})
	}
	for turn, want := range []bool{true, false} {
		req := fleet.Request{Model: "m", Session: "s", Splits: true, PromptBytes: 4000}
		plan, err := r.Decide(now, &req)
		if err != nil || !plan.Split() {
			t.Fatalf("%+v, %v", plan, err)
		}
		req.Leg, req.Decoder, req.TriedPrefill = fleet.LegPrefill, plan.Endpoint.Name, []string{plan.Prefill.Endpoint.Name}
		again, err := r.Decide(now, &req)
		if err != nil {
			t.Fatal(err)
		}
		if plan.NewID != want || plan.Prefill.NewID != want || again.Prefill.NewID != want {
			t.Errorf("turn %d: %v, %v and, again, %v; want %v", turn+1, plan.NewID, plan.Prefill.NewID, again.Prefill.NewID, want)
		}
		for _, l := range []fleet.Lease{plan.Lease, plan.Prefill.Lease, again.Prefill.Lease} {
			r.Observe(now, route.Finished{Lease: l})
		}
	}
}

// TestSeenIDsAreBounded: an id counts as a first turn again after enough others.
func TestSeenIDsAreBounded(t *testing.T) {
	x := &reviewed{t: t, now: time.Unix(1000, 0), r: route.New(route.Config{
		Policy: func() pick.Policy { return leastWork{} }, Sessions: session.Config{SeenIDs: 2},
	})}
	x.declare([]string{"a", "b"}, "")
	x.up("a", nil, fleet.Model{ID: "m"})
	x.up("b", nil, fleet.Model{ID: "m"})
	for i, step := range []struct {
		id   string
		want bool
	}{{"1", true}, {"2", true}, {"1", false}, {"3", true}, {"1", false}, {"2", true}} {
		d := x.route(fleet.Request{Session: step.id, Model: "m"})
		x.end(d, fleet.OK)
		if d.NewID != step.want {
			t.Errorf("step %d, %s: %v, want %v", i, step.id, d.NewID, step.want)
		}
	}
}
