package route_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
)

// TestStatusInSteps: what is collected in steps lists each endpoint once, those that came between two steps too, and none that went.
func TestStatusInSteps(t *testing.T) {
	now := time.Unix(1000, 0)
	r := route.New(route.Config{Policy: func() pick.Policy { return leastttft.New(leastttft.Config{}.WithDefaults()) }})
	names := func(from, to int) (names []string) {
		for i := from; i < to; i++ {
			names = append(names, fmt.Sprint("e", i))
		}
		return names
	}
	declare := func(names []string) {
		d := route.Declared{Source: "s"}
		for _, n := range names {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: n, URL: "http://" + n, Weight: 1})
		}
		r.Observe(now, d)
	}
	for _, tt := range []struct {
		name          string
		before, after []string
	}{
		{"none", nil, nil},
		{"as many as one step has", names(0, 64), names(0, 64)},
		{"some come", names(0, 150), names(0, 170)},
		{"the first go", names(0, 150), names(70, 150)},
		{"all go", names(0, 150), nil},
	} {
		declare(tt.before)
		var s route.Statuses
		steps, more := 1, r.Describe(now, &s)
		declare(tt.after)
		for more {
			steps, more = steps+1, r.Describe(now, &s)
		}
		var got []string
		for _, e := range s.Of {
			got = append(got, e.Endpoint.Name)
		}
		if !slices.Equal(got, tt.after) || len(tt.before) > 64 && steps == 1 {
			t.Errorf("%s: %v in %d steps, want %v", tt.name, got, steps, tt.after)
		}
		if all := r.Status(now); len(all) != len(tt.after) {
			t.Errorf("%s: %d at once, want %d", tt.name, len(all), len(tt.after))
		}
	}
}
