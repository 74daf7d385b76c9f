package discovery_test

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/route"
)

func sorted[T cmp.Ordered](s []T, less func(a, b T) bool) []T {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b T) int {
		if less(a, b) {
			return -1
		}
		return 1
	})
	return s
}

func names(d route.Declared) []string {
	out := []string{}
	for _, e := range d.Endpoints {
		out = append(out, e.Name)
	}
	return out
}

func TestStatic(t *testing.T) {
	var got []route.Declared
	publish := func(d route.Declared) { got = append(got, d) }
	discovery.Static("static", nil, publish)
	discovery.Static("static", []fleet.Endpoint{{Name: "a"}}, publish)
	if len(got) != 1 || got[0].Source != "static" || !slices.Equal(names(got[0]), []string{"a"}) {
		t.Errorf("got %v", got)
	}
}

func TestAdminRemovesAWholeEngine(t *testing.T) {
	var last route.Declared
	a := discovery.NewAdmin("admin", func(d route.Declared) { last = d }, nil)
	eps, err := discovery.Endpoints([]discovery.EndpointConfig{
		{URL: "a:1", Name: "a", Ranks: 2}, {URL: "b:1", Name: "b"},
	}, discovery.None())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(eps...); err != nil {
		t.Fatal(err)
	}
	if err := a.Remove("a"); err != nil || !slices.Equal(names(last), []string{"b"}) {
		t.Errorf("after removing a: %v, %v", names(last), err)
	}
	if err := a.Remove("a/rank0"); !errors.Is(err, discovery.ErrNotDeclared) {
		t.Errorf("removing what is gone: %v", err)
	}
}

// Against a plain list: every accepted change is published as a full snapshot, a refused one changes nothing.
func TestAdminMatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var model []string
		var last []string
		published := 0
		elsewhere := func(name string) bool { return name == "static" }
		a := discovery.NewAdmin("admin", func(d route.Declared) { last, published = names(d), published+1 }, elsewhere)
		name := rapid.SampledFrom([]string{"a", "b", "c", "static"})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				add := rapid.SliceOfN(name, 1, 3).Draw(t, "names")
				var eps []fleet.Endpoint
				next, ok := slices.Clone(model), true
				for _, n := range add {
					eps = append(eps, fleet.Endpoint{Name: n})
					ok = ok && n != "static" && !slices.Contains(next, n)
					next = append(next, n)
				}
				before := published
				err := a.Add(eps...)
				if ok != (err == nil) || !ok && !errors.Is(err, discovery.ErrDuplicate) {
					t.Fatalf("Add(%v) to %v: %v", add, model, err)
				}
				if ok {
					model = next
				} else if published != before {
					t.Fatal("a refused Add was published")
				}
			},
			"remove": func(t *rapid.T) {
				n := name.Draw(t, "name")
				i := slices.Index(model, n)
				err := a.Remove(n)
				if (i >= 0) != (err == nil) || i < 0 && !errors.Is(err, discovery.ErrNotDeclared) {
					t.Fatalf("Remove(%s) from %v: %v", n, model, err)
				}
				if i >= 0 {
					model = slices.Delete(model, i, i+1)
				}
			},
			"": func(t *rapid.T) {
				if published > 0 && !slices.Equal(model, last) {
					t.Fatalf("published %v, want %v", last, model)
				}
			},
		})
	})
}
