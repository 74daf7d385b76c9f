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

// TestSlotCache: slots that are emptied for each other share one context; the latest evidence counts.
func TestSlotCache(t *testing.T) {
	table, now := New(), time.Unix(1000, 0)
	spec := fleet.Endpoint{Name: "e"}
	e := table.Allocate(spec)
	table.Enter(e, spec, "s")
	report := func(tokens int64, slots ...fleet.SlotState) {
		table.Report(now, e, &fleet.Report{
			Healthy: true, Slots: 4, CacheTokens: tokens, Load: &fleet.LoadReport{SlotStates: slots},
		})
	}
	had := fleet.SlotState{Task: 1}
	cleared := fleet.SlotState{Task: 1, Empty: true}
	next := fleet.SlotState{Slot: 1, Task: 2, Busy: true}
	after := fleet.SlotState{Slot: 2, Task: 3, Busy: true}
	for _, row := range []struct {
		name   string
		report func()
		room   int64
		reuse  int64
	}{
		{"at first", func() { report(4000, had) }, 4000, 4000},
		{"emptied", func() { report(4000, cleared, next) }, 1000, 4000},
		{"no news", func() { report(4000, cleared, next) }, 1000, 4000},
		{"started otherwise", func() { report(8000, had) }, 8000, 8000},
		{"emptied again", func() { report(8000, cleared, next) }, 2000, 8000},
		{"restarted, and counts anew", func() { table.Restarted(e); report(8000, had) }, 2000, 8000},
		{"kept", func() { report(8000, had, after) }, 8000, 8000},
	} {
		row.report()
		if e.CacheTokens() != row.room || e.ReuseTokens() != row.reuse || e.SharesContext() != (row.room < row.reuse) {
			t.Errorf("%s: %d and %d tokens, shared %t", row.name, e.CacheTokens(), e.ReuseTokens(), e.SharesContext())
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
