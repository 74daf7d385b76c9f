package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestModelRules: requests for a model are placed by the first rules that have its name: the policy of both legs, and
// whether they are split; aliases by their own name. Other models have the rules of all, and a new configuration
// replaces them.
func TestModelRules(t *testing.T) {
	now := time.Unix(1000, 0)
	of := func(at int) func() pick.Policy { return func() pick.Policy { return fixed(at) } }
	var all []fleet.Endpoint
	for _, e := range []struct {
		name string
		role fleet.Role
	}{{"d0", fleet.RoleDecode}, {"d1", fleet.RoleDecode}, {"p0", fleet.RolePrefill}, {"p1", fleet.RolePrefill}} {
		all = append(all, fleet.Endpoint{
			Name: e.name, URL: "http://" + e.name, Weight: 1, Role: e.role, Kind: fleet.KindVLLM,
			Models: []string{"m", "m-long", "n"},
		})
	}
	with := func(models ...route.ModelRules) route.Config {
		return route.Config{
			Policy: of(0), Disaggregation: route.Disaggregation{When: fleet.WhenNever}, Models: models,
			Aliases: []fleet.Alias{{Name: "fast", Models: []string{"m"}}},
		}
	}
	long := route.ModelRules{Names: fleet.Names{"m-*", "fast"}, Policy: of(1), Disaggregation: route.Disaggregation{
		When: fleet.WhenTokens, Threshold: 100,
	}}
	rest := route.ModelRules{
		Names: fleet.Names{"m*"}, Policy: of(1), Disaggregation: route.Disaggregation{When: fleet.WhenNever},
	}
	r := route.New(with(long, rest))
	r.Observe(now, route.Declared{Source: "s", Endpoints: all})
	ask := func(model string, tokens int) string {
		t.Helper()
		p, err := r.Decide(now, &fleet.Request{Model: model, MintedID: "s", PromptTokens: tokens, Splits: true})
		if err != nil {
			t.Fatal(err)
		}
		r.Observe(now, route.Finished{Lease: p.Lease})
		if p.Split() {
			r.Observe(now, route.Finished{Lease: p.Prefill.Lease})
			return p.Prefill.Endpoint.Name + " " + p.Endpoint.Name
		}
		return p.Endpoint.Name
	}
	for _, tt := range []struct {
		model  string
		tokens int
		want   string
	}{{"m-long", 99, "d1"}, {"m-long", 100, "p1 d1"}, {"fast", 100, "p1 d1"}, {"m", 100, "d1"}, {"n", 100, "d0"}} {
		if got := ask(tt.model, tt.tokens); got != tt.want {
			t.Errorf("%d tokens for %q: %s, want %s", tt.tokens, tt.model, got, tt.want)
		}
	}
	r.Observe(now, route.Configured{Config: with(rest, long), Policies: true})
	if got := ask("m-long", 100); got != "d1" {
		t.Errorf("the first rules count: %s", got)
	}
	r.Observe(now, route.Configured{Config: with(), Policies: true})
	if got := ask("m-long", 100); got != "d0" {
		t.Errorf("without rules of its own: %s", got)
	}
	if s := r.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
		t.Errorf("%+v", s)
	}
}
