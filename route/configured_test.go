package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/session"
)

// fixed always picks the candidate with this index.
type fixed int

func (fixed) Needs() pick.Needs { return pick.Needs{Name: "fixed"} }

func (fixed) Hooks() pick.Hooks { return pick.Hooks{} }

func (f fixed) Pick(*pick.View, *fleet.Request) pick.Choice {
	return pick.Choice{Index: int(f), Reason: "fixed"}
}

// TestConfigured: a new configuration applies from the next decision on; running requests and learnt state stay.
func TestConfigured(t *testing.T) {
	now := time.Unix(1000, 0)
	with := func(at int) route.Config {
		return route.Config{Policy: func() pick.Policy { return fixed(at) }}
	}
	r := route.New(with(0))
	r.Observe(now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://a", Weight: 1, Models: []string{"m"}},
		{Name: "b", URL: "http://b", Weight: 1, Models: []string{"m"}},
	}})
	ask := func(model string) (fleet.Lease, string) {
		t.Helper()
		p, err := r.Decide(now, &fleet.Request{Model: model, Session: "s", PromptTokens: 10})
		if err != nil {
			t.Fatal(err)
		}
		return p.Lease, p.Endpoint.Name
	}
	first, at := ask("m")
	if at != "a" {
		t.Fatalf("at %s", at)
	}
	r.Observe(now, route.Configured{Config: with(1)})
	second, at := ask("m")
	if at != "a" {
		t.Errorf("the pool has got another policy, and chooses %s", at)
	}
	next := with(1)
	next.Aliases = []fleet.Alias{{Name: "fast", Models: []string{"m"}}}
	next.Sessions = session.Config{Max: 5}
	r.Observe(now, route.Configured{Config: next, Policies: true})
	third, at := ask("m")
	if at != "b" {
		t.Errorf("the new policy is not asked: %s", at)
	}
	fourth, at := ask("fast")
	if at != "b" {
		t.Errorf("the new alias leads to %s", at)
	}
	if s := r.Stats(); s.Leases != 4 || s.SessionHits != 2 {
		t.Errorf("%+v", s)
	}
	for _, l := range []fleet.Lease{first, second, third, fourth} {
		r.Observe(now, route.Finished{Lease: l})
	}
	if s := r.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
		t.Errorf("%+v", s)
	}
}

// TestConfiguredKeepsWhatIsOff: a new configuration switches no mechanism on or off, and a router without a queue gets
// none.
func TestConfiguredKeepsWhatIsOff(t *testing.T) {
	c := route.Config{
		Policy: func() pick.Policy { return fixed(0) }, Queue: route.QueueConfig{Ahead: route.DefaultAhead},
		Without: ablation.Queue | ablation.Losses,
	}
	r := route.New(c)
	want := r.Config()
	c.Without = 0
	r.Observe(time.Unix(1000, 0), route.Configured{Config: c})
	if is := r.Config(); want.Queue.Ahead != 0 || is.Queue != want.Queue || is.Without != want.Without {
		t.Errorf("%+v without %v, want %+v without %v", is.Queue, is.Without, want.Queue, want.Without)
	}
}

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
