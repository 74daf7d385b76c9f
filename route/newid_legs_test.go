package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestNewIDOfBothLegs: both legs of a split request, and a repeated leg, report the same.
func TestNewIDOfBothLegs(t *testing.T) {
	r := route.New(route.Config{
		Policy: func() pick.Policy { return leastWork{} }, Disaggregation: route.Disaggregation{When: fleet.WhenAlways},
	})
	now := time.Unix(0, 0)
	var all []fleet.Endpoint
	for name, role := range map[string]fleet.Role{
		"p1": fleet.RolePrefill, "p2": fleet.RolePrefill, "d": fleet.RoleDecode,
	} {
		all = append(all, fleet.Endpoint{
			Name: name, URL: "http://" + name, Weight: 1, Role: role, Models: []string{"m"},
		})
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
		req.Leg, req.Decoder, req.TriedPrefill = fleet.LegPrefill, plan.Endpoint.Name, []string{
			plan.Prefill.Endpoint.Name,
		}
		again, err := r.Decide(now, &req)
		if err != nil {
			t.Fatal(err)
		}
		if plan.NewID != want || plan.Prefill.NewID != want || again.Prefill.NewID != want {
			t.Errorf("turn %d: %v, %v and, again, %v; want %v",
				turn+1, plan.NewID, plan.Prefill.NewID, again.Prefill.NewID, want)
		}
		for _, l := range []fleet.Lease{plan.Lease, plan.Prefill.Lease, again.Prefill.Lease} {
			r.Observe(now, route.Finished{Lease: l})
		}
	}
}
