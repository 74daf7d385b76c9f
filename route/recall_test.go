package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// parents records the parent of each request and spreads them.
type parents struct{ seen *[]int }

func (parents) Needs() pick.Needs { return pick.Needs{Name: "parents"} }

func (parents) Hooks() pick.Hooks { return pick.Hooks{} }

func (p parents) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	*p.seen = append(*p.seen, v.Parent)
	return pick.Choice{Index: len(*p.seen) % len(v.Candidates), Reason: "test"}
}

func TestParentIsAHint(t *testing.T) {
	var seen []int
	r := route.New(route.Config{Policy: func() pick.Policy { return parents{&seen} }})
	now := time.Unix(1000, 0)
	r.Observe(now, route.Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://a", Weight: 1},
		{Name: "b", URL: "http://b", Weight: 1},
		{Name: "c", URL: "http://c", Weight: 1},
	}})
	for _, name := range []string{"a", "b", "c"} {
		r.Observe(now, route.Probed{
			Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}, {ID: "n"}}},
		})
	}
	ask := func(req fleet.Request) (endpoint, session string, parent int) {
		t.Helper()
		d, err := r.Decide(now, &req)
		if err != nil {
			t.Fatal(err)
		}
		return d.Endpoint.Name, d.Session, seen[len(seen)-1]
	}
	name := func(i int) string {
		if i < 0 {
			return ""
		}
		return string(rune('a' + i))
	}
	home, id, parent := ask(fleet.Request{Model: "m", Session: "main", Parent: "unknown"})
	if parent != -1 || id != "main" {
		t.Errorf("parent %d of %s", parent, id)
	}
	if _, id, parent = ask(fleet.Request{Model: "m", Session: "sub", Parent: "main"}); name(parent) != home ||
		id != "sub" {
		t.Errorf("parent of %s at %q, want %s", id, name(parent), home)
	}
	if _, _, parent = ask(fleet.Request{Model: "m", Session: "sub", Parent: "main"}); parent != -1 {
		t.Errorf("a conversation that has a home of its own is told of its parent's: %d", parent)
	}
	if _, _, parent = ask(fleet.Request{Model: "m", MintedID: "x", Parent: "main"}); name(parent) != home {
		t.Errorf("parent of a conversation without an id at %q, want %s", name(parent), home)
	}
	for what, req := range map[string]fleet.Request{
		"another model": {Model: "n", Session: "s1", Parent: "main"}, "another tenant": {
			Model: "m", Tenant: "t", Session: "s2", Parent: "main",
		}, "the parent's endpoint is excluded": {Model: "m", Session: "s3", Parent: "main", Exclude: []string{home}},
	} {
		if _, _, parent = ask(req); parent != -1 {
			t.Errorf("%s: parent %d", what, parent)
		}
	}
	_, minted, _ := ask(fleet.Request{Model: "m", MintedID: "minted"})
	if _, _, parent = ask(fleet.Request{Model: "m", Session: "child", Parent: minted}); parent == -1 {
		t.Error("a parent under an id that was minted for it is not known")
	}
}
