package pool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy/basic"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/learnt"
)

func inTurn(aliases ...fleet.Alias) Config {
	return Config{
		Rules:   Rules{Policy: basic.NewRoundRobin, Decode: basic.NewRoundRobin, Prefill: basic.NewRoundRobin},
		Aliases: aliases,
	}
}

// house is a registry and its pools, and what the test knows of the endpoints itself.
type house struct {
	registry *registry.Table
	pools    *Table
	listed   []*occupant // in order of declaration
	aliases  []fleet.Alias
}

type occupant struct {
	e         registry.Endpoint
	spec      fleet.Endpoint
	reported  []fleet.Model
	knowsNone bool // nothing was reported
	gone      bool
}

// serves is the model under which an endpoint belongs to a pool.
func (o *occupant) serves(name string, aliases []fleet.Alias) (model string, ok bool) {
	if o.gone {
		return "", false
	}
	targets, isAlias := []string{name}, false
	for _, a := range aliases {
		if a.Name == name {
			targets, isAlias = a.Models, true
		}
	}
	switch {
	case name == "":
		return "", true
	case name == Any && !isAlias:
		return "", len(o.spec.Models) == 0 && o.knowsNone
	}
	for _, target := range targets {
		for _, m := range o.models() {
			if m == target {
				return m, true
			}
		}
	}
	return "", false
}

// models are those declared, else those reported.
func (o *occupant) models() []string {
	if len(o.spec.Models) > 0 {
		return o.spec.Models
	}
	var out []string
	for _, m := range o.reported {
		out = append(out, m.ID)
	}
	return out
}

func (h *house) enter(spec fleet.Endpoint) *occupant {
	o := &occupant{e: h.registry.Allocate(spec), spec: spec, knowsNone: true}
	h.registry.Enter(o.e, spec, "s")
	h.listed = append(h.listed, o)
	return o
}

func (h *house) settle() {
	h.pools.Refresh()
	h.registry.ClearTouched()
}

// step changes endpoints as the router does.
func (h *house) step(t *rapid.T) {
	spec := fleet.Endpoint{
		Name:   rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"),
		Models: rapid.SampledFrom([][]string{nil, nil, nil, {"m"}, {"n", "m"}}).Draw(t, "declared"),
		Role: rapid.SampledFrom([]fleet.Role{
			fleet.RoleBoth, fleet.RoleBoth, fleet.RoleBoth, fleet.RolePrefill,
			fleet.RoleDecode,
		}).Draw(t, "role"),
	}
	i := slices.IndexFunc(h.listed, func(o *occupant) bool { return o.spec.Name == spec.Name && o.e.Current() })
	if i < 0 {
		h.enter(spec)
		return
	}
	o := h.listed[i]
	switch rapid.SampledFrom([]string{
		"redeclare", "replace", "leave", "forget", "report", "report", "report",
		"pool",
	}).Draw(t, "step") {
	case "redeclare":
		o.spec, o.gone = spec, false
		h.registry.Redeclare(o.e, spec, "s")
	case "replace":
		o.gone = true
		h.registry.Leave(time.Time{}, o.e)
		h.registry.Replace(o.e, h.enter(spec).e)
		last := len(h.listed) - 1
		h.listed[i], h.listed[last] = h.listed[last], h.listed[i]
	case "leave":
		o.gone = true
		h.registry.Leave(time.Time{}, o.e)
	case "forget":
		for i, o := range h.listed {
			if o.gone {
				h.registry.Forget(o.e)
				h.registry.Free(o.e)
				h.listed = slices.Delete(h.listed, i, i+1)
				return
			}
		}
	case "report":
		o.knowsNone, o.reported = false, []fleet.Model{}
		ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"m", "n", "o"}), 0, 2, rapid.ID)
		for _, id := range ids.Draw(t, "models") {
			o.reported = append(o.reported, fleet.Model{
				ID:            id,
				ContextTokens: rapid.SampledFrom([]int{0, 9}).Draw(t, "context"),
			})
		}
		if rapid.Bool().Draw(t, "adapter") {
			o.reported = append(o.reported, fleet.Model{ID: "l", Parent: "m"})
		}
		h.registry.Report(time.Unix(1000, 0), o.e, &fleet.Report{Healthy: true, Models: o.reported})
	case "pool":
		h.pools.Keep(h.pools.Named(rapid.SampledFrom([]string{
			"m", "n", "o", "l", "chat", "", Any,
			"nobody's",
		}).Draw(t, "pool")))
	}
}

// check compares a pool, kept or made anew, with the endpoints that serve it.
func (h *house) check(t *rapid.T, name string) {
	p := h.pools.Named(name)
	var want, got []string
	splits, alike := false, true
	for _, o := range h.listed {
		model, ok := o.serves(name, h.aliases)
		if !ok {
			if _, is := p.MemberAt(o.e); is {
				t.Fatalf("%q: %s is a member", name, o.spec.Name)
			}
			continue
		}
		want = append(want, fmt.Sprintf("%s:%s at %d", o.spec.Name, model, o.e.Slot()))
		splits = splits || o.spec.Role != fleet.RoleBoth
	}
	slots := p.Slots()
	for i := range p.Len() {
		m, first := p.Member(i), p.Member(0)
		got = append(got, fmt.Sprintf("%s:%s at %d", m.Endpoint().Name(), m.Model(), slots.At(i)))
		alike = alike && !m.Adapter() && m.Model() == first.Model() && m.Context() == first.Context()
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q has %v, want %v", name, got, want)
	}
	if p.Uniform() != alike || p.Len() > 0 && p.Splits() != splits {
		t.Fatalf("%q: alike %t, want %t; splits %t, want %t", name, p.Uniform(), alike, p.Splits(), splits)
	}
}

// checkModels compares the list of models.
func (h *house) checkModels(t *rapid.T) {
	served := map[string][]string{}
	for _, o := range h.listed {
		for _, m := range o.models() {
			if !o.gone {
				served[m] = append(served[m], o.spec.Name)
			}
		}
	}
	for _, a := range h.aliases {
		for _, o := range h.listed {
			if _, ok := o.serves(a.Name, h.aliases); ok && a.Name != Any {
				served[a.Name] = append(served[a.Name], o.spec.Name)
			}
		}
	}
	got := h.pools.Models()
	for _, m := range got {
		if !slices.Equal(m.Endpoints, served[m.ID]) {
			t.Fatalf("%s is served by %v, want %v", m.ID, m.Endpoints, served[m.ID])
		}
	}
	if len(got) != len(served) || !slices.IsSortedFunc(got,
		func(a, b fleet.ModelStatus) int { return strings.Compare(a.ID, b.ID) }) {
		t.Fatalf("the models are %v, want %v", got, served)
	}
	if names := h.pools.SomeNames(); len(names) != len(served) {
		t.Fatalf("the names are %v, want those of %v", names, served)
	}
}

// TestMembers: a pool that is kept up with what changes has the members that it has when it is made anew, and both
// those endpoints that serve its model, an alias of it, or anything, in order of declaration.
func TestMembers(t *testing.T) {
	for name, aliases := range map[string][]fleet.Alias{
		"no aliases": nil, "an alias": {{Name: "chat", Models: []string{"o", "m"}}}, "one for all": {{
			Name:   "chat",
			Models: []string{"n"},
		}, {Name: Any, Models: []string{"m"}}},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				h := &house{registry: registry.New(), aliases: aliases}
				h.pools = New(h.registry.Reader, inTurn(aliases...))
				for range rapid.IntRange(1, 50).Draw(t, "steps") {
					h.step(t)
					if rapid.IntRange(0, 2).Draw(t, "settles") > 0 {
						continue
					}
					h.settle()
					for _, p := range []string{"m", "n", "o", "l", "chat", "", Any, "nobody's"} {
						h.check(t, p)
					}
					h.checkModels(t)
				}
			})
		})
	}
}

// TestKeptIsBounded: clients that ask for many names of models cannot make pools without end, and those with members
// stay.
func TestKeptIsBounded(t *testing.T) {
	h := &house{registry: registry.New()}
	h.pools = New(h.registry.Reader, inTurn())
	o := h.enter(fleet.Endpoint{Name: "a", Models: []string{"m"}})
	h.settle()
	kept := h.pools.Named("m")
	h.pools.Keep(kept)
	for i := range 100 { // of no model that anybody serves
		h.pools.Keep(h.pools.Named(fmt.Sprint("nobody's", i)))
	}
	if n := len(h.pools.Kept()); n != 1 {
		t.Errorf("%d pools are kept, want 1", n)
	}
	for i := range bound.Many + 10 { // of models that come and go
		o.spec.Models = []string{"m", fmt.Sprint("m", i)}
		h.registry.Redeclare(o.e, o.spec, "s")
		h.settle()
		h.pools.Keep(h.pools.Named(o.spec.Models[1]))
	}
	if n := len(h.pools.Kept()); n > bound.Many || h.pools.Named("m") != kept {
		t.Errorf("%d pools are kept, and the one of a model that is still served: %t", n,
			h.pools.Named("m") == kept)
	}
}

// TestPoliciesFollowRoles: a pool has policies of its own, others while its endpoints have roles, and new ones when
// the configuration says so.
func TestPoliciesFollowRoles(t *testing.T) {
	h := &house{registry: registry.New()}
	h.pools = New(h.registry.Reader, inTurn())
	o := h.enter(fleet.Endpoint{Name: "a", Models: []string{"m"}})
	h.settle()
	p := h.pools.Named("m")
	h.pools.Keep(p)
	role := func(r fleet.Role) {
		o.spec.Role = r
		h.registry.Redeclare(o.e, o.spec, "s")
		h.settle()
	}
	whole := h.pools.Policy(p, fleet.LegUnsplit)
	if p.Splits() || h.pools.Policy(p, fleet.LegPrefill) != whole ||
		p.Namespace(fleet.LegPrefill) == p.Namespace(fleet.LegUnsplit) {
		t.Error("without roles")
	}
	role(fleet.RolePrefill)
	decode, prefill := h.pools.Policy(p, fleet.LegDecode), h.pools.Policy(p, fleet.LegPrefill)
	if !p.Splits() || decode == whole || prefill == decode || p.ServesWhole() {
		t.Error("with roles")
	}
	h.registry.Leave(time.Time{}, o.e) // the pool is empty now and keeps what it has learnt
	h.settle()
	if h.pools.Policy(p, fleet.LegDecode) != decode {
		t.Error("without members")
	}
	role(fleet.RoleBoth)
	if p.Splits() || h.pools.Policy(p, fleet.LegUnsplit) == decode || !p.ServesWhole() {
		t.Error("without roles again")
	}
	whole = h.pools.Policy(p, fleet.LegUnsplit)
	if h.pools.SetConfig(inTurn()); h.pools.Policy(p, fleet.LegUnsplit) != whole {
		t.Error("the same configuration")
	}
	if h.pools.RenewPolicies(); h.pools.Policy(p, fleet.LegUnsplit) == whole {
		t.Error("new policies")
	}
}

// TestBase: a request without a model means the only one, adapters aside.
func TestBase(t *testing.T) {
	adapter := fleet.Model{ID: "l", Parent: "m"}
	for _, row := range []struct {
		name    string
		reports [][]fleet.Model
		want    string
		several bool
		alike   bool
	}{
		{"nobody", nil, "", false, true},
		{"nothing reported", [][]fleet.Model{nil, nil}, "", false, true},
		{"one", [][]fleet.Model{{{ID: "m"}}, {{ID: "m"}}}, "m", false, true},
		{"one with an adapter", [][]fleet.Model{{{ID: "m"}, adapter}, nil}, "m", false, true},
		{"two at one", [][]fleet.Model{{{ID: "m"}, {ID: "n"}}}, "", true, true},
		{"two at two", [][]fleet.Model{{{ID: "m"}}, {{ID: "n"}}}, "", true, false},
	} {
		h := &house{registry: registry.New()}
		h.pools = New(h.registry.Reader, inTurn())
		for i, models := range row.reports {
			o := h.enter(fleet.Endpoint{Name: fmt.Sprint(i)})
			h.registry.Report(time.Unix(1000, 0), o.e, &fleet.Report{Healthy: true, Models: models})
		}
		id, several := h.pools.Base()
		alike := h.pools.OneModel(func(registry.Endpoint) bool { return true })
		if id != row.want || several != row.several || alike != row.alike {
			t.Errorf("%s: %q, several %t, alike %t", row.name, id, several, alike)
		}
		if !h.pools.OneModel(func(e registry.Endpoint) bool { return e.Name() == "1" }) {
			t.Errorf("%s: one endpoint is not alike", row.name)
		}
	}
}

// TestRestored: what a pool had learnt waits for the pool, for a while, and never overwrites what it has learnt since.
func TestRestored(t *testing.T) {
	h := &house{registry: registry.New()}
	h.pools = New(h.registry.Reader, inTurn())
	h.pools.Restore(&learnt.Pool{Name: "m", Missing: 0.5, Seen: 100})
	h.pools.Restore(&learnt.Pool{Name: "n", Missing: 0.5, Seen: 100})
	h.enter(fleet.Endpoint{Name: "a", Models: []string{"m", "n", "o"}})
	h.settle()
	if got := h.pools.Named("m").Export(); got.Seen != 100 || got.Missing != 0.5 {
		t.Errorf("%+v", got)
	}
	h.pools.ForgetRestored()
	if got := h.pools.Named("n").Export(); got.Seen != 0 {
		t.Errorf("after it was forgotten: %+v", got)
	}
	kept := h.pools.Named("o")
	h.pools.Keep(kept)
	h.pools.Restore(&learnt.Pool{Name: "o", Missing: 0.5, Seen: 100})
	if got := kept.Export(); got.Seen != 100 {
		t.Errorf("a pool that has learnt nothing: %+v", got)
	}
	h.pools.Restore(&learnt.Pool{Name: "o", Missing: 0.1, Seen: 7})
	if got := kept.Export(); got.Seen != 100 {
		t.Errorf("a pool that has learnt something: %+v", got)
	}
}
