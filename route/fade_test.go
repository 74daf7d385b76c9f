package route_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// aimed picks a given candidate and records what it saw.
type aimed struct {
	at   int
	seen []pick.Candidate
}

func (a *aimed) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	a.seen = append(a.seen[:0], v.Candidates...)
	return pick.Choice{Index: a.at, Reason: "aimed"}
}

// TestSlownessFades: a slow endpoint without recent requests is assumed to be less slow, and slow again after its next answer;
// one with requests keeps its estimate.
func TestSlownessFades(t *testing.T) {
	p, now := &aimed{}, time.Unix(1_000_000, 0)
	r := route.New(route.Config{Policy: func() pick.Policy { return p }})
	var all []fleet.Endpoint
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1})
	}
	r.Observe(now, route.Declared{Source: "test", Endpoints: all})
	for _, e := range all {
		r.Observe(now, route.Probed{Endpoint: e.Name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	}
	n := 0
	serve := func(at int, perToken float64) {
		t.Helper()
		n++
		p.at = at
		d, err := r.Decide(now, &fleet.Request{ID: fmt.Sprint(n), Model: "m", Session: fmt.Sprint(n), PromptTokens: 2000, Stream: true})
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Duration((10 + 2000*perToken) * 1e6))
		r.Observe(now, route.FirstByte{Lease: d.Lease})
		now = now.Add(50 * time.Millisecond)
		r.Observe(now, route.Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 2000, OutputTokens: 10, CachedKnown: true}})
	}
	slowness := func(at int) float64 {
		serve(0, 0.1)
		return p.seen[at].MsPerToken / p.seen[0].MsPerToken
	}
	for range 20 {
		serve(0, 0.1)
		serve(1, 2)
		serve(2, 1)
	}
	if got := slowness(1); got < 14 || got > 24 {
		t.Fatalf("b is thought to be %.1f times as slow, it is 20 times", got)
	}
	was, began := slowness(1), now
	for now.Before(began.Add(2 * time.Minute)) {
		now = now.Add(10 * time.Second)
		serve(2, 1)
		if got := slowness(1); now.Before(began.Add(2*time.Minute)) && got < 0.95*was {
			t.Fatalf("%.1f after %v", got, now.Sub(began))
		}
	}
	for now.Before(began.Add(15 * time.Minute)) {
		now = now.Add(10 * time.Second)
		serve(2, 1)
	}
	if got := slowness(1); got < 3.9 || got > 4.1 {
		t.Errorf("b is thought to be %.2f times as slow a quarter of an hour later, want 4", got)
	}
	if got := slowness(2); got < 7 {
		t.Errorf("c, which is asked, is thought to be %.1f times as slow, it is 10 times", got)
	}
	serve(1, 2)
	if got := slowness(1); got < 14 {
		t.Errorf("after an answer b is thought to be %.1f times as slow, it is 20 times", got)
	}
}
