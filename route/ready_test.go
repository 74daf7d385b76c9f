package route_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestReadyWaitsForPrefillers: with split requests the router is ready once a prefiller is up, or all are known to be
// down: before, the first requests would be served whole (no_prefiller) only because they came early.
func TestReadyWaitsForPrefillers(t *testing.T) {
	tests := []struct {
		name   string
		when   fleet.SplitWhen
		probes string // results: d0 p0 p1, each + for healthy, - for down
		ready  bool
		says   string
	}{
		{"nothing is known", fleet.WhenAlways, "", false, "d0"},
		{
			"decoders only", fleet.WhenAlways, "d0+", false,
			"prefillers are not known to be up yet: p0 is unknown, p1 is unknown",
		},
		{"a prefiller", fleet.WhenAlways, "d0+ p1+", true, ""},
		{"prefillers only", fleet.WhenAlways, "p0+ p1+", false, "d0"},
		{"one down, one to come", fleet.WhenAlways, "d0+ p0-", false, "p1 is unknown"},
		{"all down", fleet.WhenAlways, "d0+ p0- p1-", true, ""},
		{"by time too", fleet.WhenTime, "d0+", false, "p0"},
		{"never split", fleet.WhenNever, "d0+", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			r := route.New(route.Config{
				Policy: func() pick.Policy { return anyPick{} }, Disaggregation: route.Disaggregation{When: tt.when},
			})
			r.Observe(now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
				{Name: "d0", URL: "http://d0", Weight: 1, Role: fleet.RoleDecode, Models: []string{"m"}},
				{Name: "p0", URL: "http://p0", Weight: 1, Role: fleet.RolePrefill, Models: []string{"m"}},
				{Name: "p1", URL: "http://p1", Weight: 1, Role: fleet.RolePrefill, Models: []string{"m"}},
			}})
			for _, probe := range strings.Fields(tt.probes) {
				for range 3 { // as many as make it down
					r.Observe(now, route.Probed{
						Endpoint: probe[:2], Report: fleet.Report{Healthy: probe[2] == '+', Detail: "refused"},
					})
				}
			}
			ready, why := r.Ready(now)
			if ready != tt.ready || !strings.Contains(why, tt.says) {
				t.Errorf("ready %t (%s), want %t (%s)", ready, why, tt.ready, tt.says)
			}
		})
	}
}

// TestReadyWaitsForEachModel: a prefiller of one model does not stand for another's, even with a common decoder, and
// one with unknown models may serve any.
func TestReadyWaitsForEachModel(t *testing.T) {
	tests := []struct {
		name   string
		models map[string][]string // declared, by endpoint; others report them when probed
		probes string
		ready  bool
		says   string
	}{
		{
			"the other model's prefiller",
			map[string][]string{"d0": {"m"}, "d1": {"n"}, "p0": {"m"}, "p1": {"n"}},
			"d0 d1 p0", false, "p1 is unknown",
		},
		{"both", map[string][]string{"d0": {"m"}, "d1": {"n"}, "p0": {"m"}, "p1": {"n"}}, "d0 d1 p0 p1", true, ""},
		{
			"nobody decodes the other model yet",
			map[string][]string{"d0": {"m"}, "d1": {"n"}, "p0": {"m"}, "p1": {"n"}},
			"d0 p0", true, "",
		},
		{
			"a decoder of two models",
			map[string][]string{"d0": {"m", "n"}, "d1": {"n"}, "p0": {"m"}, "p1": {"n"}},
			"d0 p0", false, "p1 is unknown",
		},
		{
			"not said yet",
			map[string][]string{"d0": {"m"}, "d1": {"n"}, "p0": {"m"}},
			"d0 d1 p0", false, "p1 is unknown",
		},
		{
			"not said, and nobody lacks it",
			map[string][]string{"d0": {"m"}, "d1": {"m"}, "p0": {"m"}},
			"d0 d1 p0", true, "",
		},
		{"nobody says", nil, "d0 d1 p0", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			r := route.New(route.Config{
				Policy:         func() pick.Policy { return anyPick{} },
				Disaggregation: route.Disaggregation{When: fleet.WhenAlways},
			})
			var all []fleet.Endpoint
			for _, name := range []string{"d0", "d1", "p0", "p1"} {
				role := fleet.RoleDecode
				if name[0] == 'p' {
					role = fleet.RolePrefill
				}
				all = append(all, fleet.Endpoint{
					Name: name, URL: "http://" + name, Weight: 1, Role: role, Models: tt.models[name],
				})
			}
			r.Observe(now, route.Declared{Source: "s", Endpoints: all})
			for _, name := range strings.Fields(tt.probes) {
				r.Observe(now, route.Probed{Endpoint: name, Report: fleet.Report{Healthy: true}})
			}
			ready, why := r.Ready(now)
			if ready != tt.ready || !strings.Contains(why, tt.says) {
				t.Errorf("ready %t (%s), want %t (%s)", ready, why, tt.ready, tt.says)
			}
		})
	}
}
