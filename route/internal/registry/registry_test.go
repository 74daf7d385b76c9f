package registry

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// TestGeneration: a report changes the generation, by which pools are computed anew, only if the models have changed:
// not their order.
func TestGeneration(t *testing.T) {
	a, b, l := fleet.Model{ID: "a"}, fleet.Model{ID: "b", ContextTokens: 9}, fleet.Model{ID: "l", Parent: "a"}
	table, now := New(), time.Unix(1000, 0)
	e := table.Allocate(fleet.Endpoint{Name: "e"})
	table.Enter(e, fleet.Endpoint{Name: "e"}, "s")
	for _, row := range []struct {
		name   string
		models []fleet.Model
		want   bool
	}{
		{"first", []fleet.Model{a, b, l}, true},
		{"the same", []fleet.Model{a, b, l}, false},
		{"another order", []fleet.Model{l, a, b}, false},
		{"and back", []fleet.Model{b, l, a}, false},
		{"no list", nil, false},
		{"one more", []fleet.Model{a, b, l, {ID: "k", Parent: "a"}}, true},
		{"one less", []fleet.Model{a, b, l}, true},
		{"another context", []fleet.Model{a, {ID: "b", ContextTokens: 10}, l}, true},
		{"another base", []fleet.Model{a, {ID: "b", ContextTokens: 10}, {ID: "l", Parent: "b"}}, true},
		{"one twice", []fleet.Model{a, a, {ID: "l", Parent: "b"}}, true},
		{"none", []fleet.Model{}, true},
	} {
		before := table.Generation()
		table.Report(now, e, &fleet.Report{Healthy: true, Models: row.models})
		if got := table.Generation() != before; got != row.want {
			t.Errorf("%s: the generation changes: %t, want %t", row.name, got, row.want)
		}
	}
}

// TestOverfilled: an engine whose slots share one context states it once for each. What it has is known from the first
// time that it failed its requests for it until it reports other figures; a slot of its own has what it states.
func TestOverfilled(t *testing.T) {
	report := func(slots int, tokens int64) *fleet.Report {
		return &fleet.Report{Healthy: true, Slots: slots, CacheTokens: tokens}
	}
	for _, row := range []struct {
		name  string
		part  fleet.Part
		first *fleet.Report
		next  *fleet.Report
		news  bool
		then  int64 // its capacity once it has failed
		last  int64 // and after the next report
	}{
		{"four slots", fleet.Part{}, report(4, 4000), report(4, 4000), true, 1000, 1000},
		{"a report without figures", fleet.Part{}, report(4, 4000), report(0, 0), true, 1000, 1000},
		{"fewer slots next", fleet.Part{}, report(4, 4000), report(2, 4000), true, 1000, 4000},
		{"a larger context next", fleet.Part{}, report(4, 4000), report(4, 8000), true, 1000, 8000},
		{"one slot", fleet.Part{}, report(1, 4000), report(1, 4000), false, 4000, 4000},
		{"nothing known", fleet.Part{}, report(0, 0), report(4, 4000), false, 0, 4000},
		{
			"declared as a slot",
			fleet.Part{Kind: fleet.Slot, Index: 1},
			report(4, 4000), report(4, 4000), false, 4000,
			4000,
		},
	} {
		table, now := New(), time.Unix(1000, 0)
		spec := fleet.Endpoint{Name: "e", Part: row.part}
		e := table.Allocate(spec)
		table.Enter(e, spec, "s")
		table.Report(now, e, row.first)
		if news := table.Overfilled(e); news != row.news {
			t.Errorf("%s: news %t, want %t", row.name, news, row.news)
		}
		if table.Overfilled(e) {
			t.Errorf("%s: news twice", row.name)
		}
		if got := e.CacheTokens(); got != row.then {
			t.Errorf("%s: %d tokens, want %d", row.name, got, row.then)
		}
		table.Report(now, e, row.next)
		if got := e.CacheTokens(); got != row.last {
			t.Errorf("%s: %d tokens after the next report, want %d", row.name, got, row.last)
		}
	}
}
