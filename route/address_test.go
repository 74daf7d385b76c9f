package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestAnotherAddressIsAnotherEngine: requests running at the old address do not count at the new one, are shown under
// the name until they end, and leave nothing; state that belongs to the name continues.
func TestAnotherAddressIsAnotherEngine(t *testing.T) {
	r := route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }, Explain: true})
	now := time.Unix(1000, 0)
	declare := func(url string) {
		r.Observe(now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
			{Name: "a", URL: url, Weight: 1}, {Name: "b", URL: "http://b", Weight: 1},
		}})
	}
	up := func(name string) {
		r.Observe(now, route.Probed{
			Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
	}
	declare("http://a1")
	up("a")
	r.Observe(now, route.Drain{Endpoint: "b"})
	ask := func(pin string) route.Decision {
		p, err := r.Decide(now, &fleet.Request{
			ID: "r", Model: "m", Session: "s", PromptTokens: 5000, Stream: true, Pin: pin,
		})
		if err != nil {
			t.Fatal(err)
		}
		return p.Decision
	}
	first := ask("a")
	r.Observe(now, route.FirstByte{Lease: first.Lease})
	r.Observe(now, route.Finished{Lease: first.Lease, Usage: fleet.Usage{PromptTokens: 5000, OutputTokens: 50}})
	old := ask("a")
	if old.CachedTokens == 0 || old.FirstTurn {
		t.Fatalf("at the first address it goes on as %+v", old)
	}
	r.Observe(now, route.Drain{Endpoint: "a"})
	declare("http://a2")
	s := r.Status(now)
	if len(s) != 2 || s[0].Endpoint.URL != "http://a2" || s[0].Load.Requests != 1 || !s[0].Draining ||
		s[0].Requests != 2 || s[0].State != fleet.StateUnknown {
		t.Fatalf("status %+v", s)
	}
	up("a")
	r.Observe(now, route.Drain{Endpoint: "a", Off: true})
	fresh, err := r.Decide(now, &fleet.Request{ID: "r", Model: "m", Session: "s", PromptTokens: 5000, Stream: true})
	if err != nil || fresh.Endpoint.URL != "http://a2" || fresh.CachedTokens != 0 || fresh.FirstTurn {
		t.Fatalf("at the new address it goes on as %+v, %v", fresh.Decision, err)
	}
	if c := fresh.View.Candidates[0]; c.Load.Requests != 0 || c.WaitMs != 0 || c.Epoch == 0 {
		t.Errorf("the new engine has %+v", c)
	}
	for range 5 { // the old engine is gone, which is not the new one's fault
		e := r.Observe(now, route.Finished{Lease: old.Lease, Outcome: fleet.ConnectFailed})
		if len(e.Changes) != 0 {
			t.Errorf("told %+v", e.Changes)
		}
	}
	if s := r.Status(now); s[0].State != fleet.StateUp || s[0].Load.Requests != 1 || s[0].Failures != 0 {
		t.Errorf("status %+v", s[0])
	}
	r.Observe(now, route.Finished{Lease: fresh.Lease, Usage: fleet.Usage{PromptTokens: 5000, OutputTokens: 50}})
	if err := r.Idle(); err != nil {
		t.Error(err)
	}
}
