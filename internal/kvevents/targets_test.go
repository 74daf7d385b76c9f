package kvevents

import (
	"cmp"
	"io"
	"log/slog"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// TestTargets: what is followed of an endpoint, by what is configured and what its engine tells.
func TestTargets(t *testing.T) {
	told := []fleet.KVSource{
		{Rank: 0, Events: "tcp://*:5557", Replay: "tcp://*:5657", Topic: "kv"},
		{Rank: 1, Events: "tcp://*:5558", Replay: "tcp://*:5658", Topic: "kv"},
	}
	rank1 := fleet.Part{Kind: fleet.Rank, Index: 1}
	for name, c := range map[string]struct {
		cfg  func(*Config)
		e    fleet.Endpoint
		want []string // events and replay addresses
	}{
		"discovered, whole engine": {
			nil, fleet.Endpoint{}, []string{"tcp://h:5557 tcp://h:5657", "tcp://h:5558 tcp://h:5658"},
		},
		"discovered, one rank": {nil, fleet.Endpoint{Part: rank1}, []string{"tcp://h:5558 tcp://h:5658"}},
		"not discovered":       {func(c *Config) { c.Discover = false }, fleet.Endpoint{}, nil},
		"stated": {
			nil, fleet.Endpoint{KVEvents: "tcp://g:1", KVReplay: "tcp://g:9"}, []string{"tcp://g:1 tcp://g:9"},
		},
		"stated, one rank": {
			nil,
			fleet.Endpoint{KVEvents: "tcp://g:1", KVReplay: "tcp://g:9", Part: rank1},
			[]string{"tcp://g:2 tcp://g:10"},
		},
		"stated, without discovery": {
			func(c *Config) { c.Discover = false }, fleet.Endpoint{KVEvents: "tcp://g:1"}, []string{"tcp://g:1 "},
		},
		"off":                          {nil, fleet.Endpoint{KVEvents: off}, nil},
		"polled":                       {nil, fleet.Endpoint{KVEvents: pollEvents}, []string{"poll "}},
		"a slot of a llama.cpp server": {nil, fleet.Endpoint{Part: fleet.Part{Kind: fleet.Slot}}, nil},
	} {
		cfg := DefaultConfig()
		if c.cfg != nil {
			c.cfg(&cfg)
		}
		f := New(cfg, nil, nil, func(route.Event) {}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		c.e.Name, c.e.URL = "e", "http://h:8000"
		f.Listener().Entry(&route.Entry{Event: route.Probed{Endpoint: "e", Report: fleet.Report{KVSources: told}}})
		var got []string
		for _, x := range f.targets(c.e) {
			got = append(got, x.events+" "+x.replay)
		}
		slices.SortFunc(got, cmp.Compare[string])
		if diff := gocmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
