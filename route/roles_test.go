package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestRolesLeaveWhileALegIsOpen: a pool loses its roles while a split request runs and asks for another prefiller.
func TestRolesLeaveWhileALegIsOpen(t *testing.T) {
	r := route.New(route.Config{Policy: func() pick.Policy {
		return firstLeast{}
	}, Disaggregation: route.Disaggregation{When: fleet.WhenAlways}})
	now := time.Unix(1000, 0)
	if r.Roles() {
		t.Error("nobody has a role")
	}
	r.Observe(now, declared([]string{
		"s", "p0,role=prefill,model=m", "p1,role=prefill,model=m", "p2,role=prefill,model=m", "d,role=decode,model=m",
	}))
	if !r.Roles() {
		t.Error("three have roles")
	}
	req := &fleet.Request{ID: "r", Seed: 1, Model: "m", Session: "s", PromptTokens: 8000, Splits: true}
	plan, err := r.Decide(now, req)
	if err != nil || !plan.Split() {
		t.Fatalf("%+v, %v: want two legs", plan, err)
	}
	r.Observe(now, declared([]string{"s", "p0,model=m", "p1,model=m", "p2,model=m", "d,model=m"}))
	if r.Roles() {
		t.Error("nobody has a role any more")
	}
	req.Leg, req.Decoder, req.TriedPrefill = fleet.LegPrefill, plan.Endpoint.Name, []string{plan.Prefill.Endpoint.Name}
	again, err := r.Decide(now, req)
	if err != nil || again.Prefill.Lease == 0 || again.Prefill.Endpoint.Name == plan.Endpoint.Name {
		t.Errorf("%+v, %v: want another one to compute the prompt", again, err)
	}
	for _, l := range []fleet.Lease{plan.Lease, plan.Prefill.Lease, again.Prefill.Lease} {
		r.Observe(now, route.Finished{Lease: l})
	}
	if s := r.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
		t.Errorf("%+v", s)
	}
}
