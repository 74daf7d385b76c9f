package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestJoiningRampsUp: an engine that joins a fleet with traffic gets its share little by little, also under the name of
// one that has left; those of a fleet that starts do not.
func TestJoiningRampsUp(t *testing.T) {
	now := time.Unix(1000, 0)
	r := route.New(route.Config{Policy: func() pick.Policy { return &costed{} }})
	declare := func(urls ...string) {
		d := route.Declared{Source: "test"}
		for i, url := range urls {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{
				Name: string(rune('a' + i)), URL: url, Weight: 1, Models: []string{"m"},
			})
		}
		r.Observe(now, d)
		for _, e := range d.Endpoints {
			r.Observe(now, route.Probed{Endpoint: e.Name, Report: fleet.Report{Healthy: true}})
		}
	}
	ramp := func(url string) float64 {
		for _, s := range r.Status(now) {
			if s.Endpoint.URL == url {
				return s.Ramp
			}
		}
		t.Fatalf("there is no %s", url)
		return 0
	}
	declare("http://1", "http://2")
	for range 4 {
		if _, err := r.Decide(now, &fleet.Request{Model: "m", PromptTokens: 100}); err != nil {
			t.Fatal(err)
		}
	}
	declare("http://1", "http://other", "http://3")
	if got := ramp("http://1"); got != 1 {
		t.Errorf("one of the first endpoints has %v of its share", got)
	}
	for _, url := range []string{"http://other", "http://3"} {
		if got := ramp(url); got == 1 {
			t.Errorf("%s, which has just joined, has its whole share", url)
		}
	}
}
