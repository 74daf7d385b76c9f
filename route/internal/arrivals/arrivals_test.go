package arrivals

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/slot"
)

// clone is a deep copy of a table.
func clone(t *Table) *Table {
	c := *t
	c.endpoints = slot.Table[endpoint]{}
	for i := range t.endpoints.Len() {
		e := *t.endpoints.Get(i)
		e.idles.spans = slices.Clone(e.idles.spans)
		*c.endpoints.Grow(i) = e
	}
	return &c
}

// TestReadingChangesNothing: no call of a Reader changes the table.
func TestReadingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := New(0)
		const endpoints = 3
		var rows []pick.Candidate
		for n := range endpoints {
			table.AddEndpoint(n)
			rows = append(rows, pick.Candidate{Endpoint: pick.Endpoint{Slot: n}})
		}
		now := time.Unix(1000, 0)
		rests := make([][]uint32, endpoints)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
			at := rapid.IntRange(0, endpoints-1).Draw(t, "slot")
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				table.Turn(now, at)
				table.Spend(now, at, 50)
			case 1:
				table.Activate(at)
				rests[at] = append(rests[at], table.BeginIdle(now, at))
				table.Deactivate(at)
			case 2:
				if n := len(rests[at]); n > 0 {
					if rapid.Bool().Draw(t, "back") {
						table.Return(now, at, rests[at][n-1])
					} else {
						table.Restart(now, at, rests[at][n-1])
					}
					rests[at] = rests[at][:n-1]
				}
			default:
				table.Age(now)
			}
			later := now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "later")) * time.Millisecond)
			before := clone(table)
			for range 2 {
				f := table.Fleet(later, pick.EndpointsOf(rows))
				table.Demand(later, at, &f, 1, 400)
				table.Active(at)
			}
			if !reflect.DeepEqual(before, clone(table)) {
				t.Fatal("reading has changed the table")
			}
		}
	})
}

// TestAgeInSteps: one call advances a bounded number of spans, whatever the fleet has, and further calls the rest, each
// endpoint in turn, also where a tick brings one call only.
func TestAgeInSteps(t *testing.T) {
	const endpoints, conversations = 300, 150
	table := New(0)
	now := time.Unix(1000, 0)
	for n := range endpoints {
		table.AddEndpoint(n)
	}
	for range conversations {
		now = now.Add(time.Minute)
		for n := range endpoints {
			table.BeginIdle(now, n)
		}
	}
	behind := func() (n int) {
		for i := range endpoints {
			if table.endpoints.Get(i).idles.at != table.clock.latest {
				n++
			}
		}
		return n
	}
	now = now.Add(Tick)
	table.Age(now)
	spans := len(table.endpoints.Get(0).idles.spans)
	if done := endpoints - behind(); spans < 10 || done == 0 || done*spans > bound.Look+spans {
		t.Errorf("one call advanced %d endpoints of %d spans each", done, spans)
	}
	for calls := 1; behind() > 0; calls++ {
		if table.Age(now); calls > 2*endpoints*(spans+1)/bound.Look+2 {
			t.Fatalf("%d calls leave %d endpoints behind", calls, behind())
		}
	}
	seen := map[int]bool{}
	for range 20 * endpoints * (spans + 1) / bound.Look {
		now = now.Add(Tick)
		table.Age(now)
		for i := range endpoints {
			if table.endpoints.Get(i).idles.at == table.clock.latest {
				seen[i] = true
			}
		}
	}
	if len(seen) != endpoints {
		t.Errorf("with a call for each tick %d of %d endpoints were advanced", len(seen), endpoints)
	}
}
