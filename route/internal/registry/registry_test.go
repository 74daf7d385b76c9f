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
		before := table.Reader().Generation()
		table.Report(now, e, &fleet.Report{Healthy: true, Models: row.models})
		if got := table.Reader().Generation() != before; got != row.want {
			t.Errorf("%s: the generation changes: %t, want %t", row.name, got, row.want)
		}
	}
}
