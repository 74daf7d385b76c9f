package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/basic"
	"github.com/warmpath/warmpath/policy/policytest"
)

// wrappers make each policy that has another one inside, by the name of its type.
var wrappers = map[string]func(pick.Policy) pick.Policy{"sessionPolicy": basic.NewSession}

// some is a policy with any needs and hooks.
type some struct {
	needs pick.Needs
	hooks pick.Hooks
}

func (some) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{} }

func (p some) Needs() pick.Needs { return p.needs }

func (p some) Hooks() pick.Hooks { return p.hooks }

// TestWrappersLoseNothing: a policy with another inside needs all that the inner one needs, each call of each hook
// reaches the inner one, and around a policy without needs and hooks it has none.
func TestWrappersLoseNothing(t *testing.T) {
	if found := declaredWrappers(t); !slices.Equal(found, slices.Sorted(maps.Keys(wrappers))) {
		t.Fatalf("policies with another inside are %v, the test knows %v", found, slices.Sorted(maps.Keys(wrappers)))
	}
	for name, wrap := range wrappers {
		for i := range reflect.TypeFor[pick.Needs]().NumField() {
			inner := some{}
			f := reflect.ValueOf(&inner.needs).Elem().Field(i)
			word := reflect.TypeFor[pick.Needs]().Field(i).Name
			if word == "Name" {
				continue
			}
			f.SetBool(true)
			got := reflect.ValueOf(wrap(inner).Needs())
			for j := range got.NumField() {
				if has := got.Field(j); has.Kind() == reflect.Bool && has.Bool() != (i == j) {
					t.Errorf("%s over a policy that needs %s: %s is %v",
						name, word, got.Type().Field(j).Name, has.Bool())
				}
			}
		}
		for i := range reflect.TypeFor[pick.Hooks]().NumField() {
			inner, calls := some{}, 0
			f := reflect.ValueOf(&inner.hooks).Elem().Field(i)
			word := reflect.TypeFor[pick.Hooks]().Field(i).Name
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { calls++; return nil }))
			got := reflect.ValueOf(wrap(inner).Hooks())
			for j := range got.NumField() {
				if has := !got.Field(j).IsNil(); has != (i == j) {
					t.Errorf("%s over a policy with the hook %s: has %s: %v", name, word, got.Type().Field(j).Name, has)
				}
			}
			if got.Field(i).IsNil() {
				continue
			}
			if got.Field(i).Call(arguments(f.Type())); calls != 1 {
				t.Errorf("%s passes %s on %d times, want once", name, word, calls)
			}
		}
	}
}

// TestSessionIsBoth: session over least_ttft needs and hears what least_ttft does.
func TestSessionIsBoth(t *testing.T) {
	both, inner := makeOf(t, Config{Name: nameSession, Session: SessionConfig{Fallback: nameLeastTTFT}}),
		make1(t, nameLeastTTFT)
	want := inner.Needs()
	want.Name = nameSession
	if got := both.Needs(); got != want {
		t.Errorf("needs %+v, want %+v", got, want)
	}
	got, hooks := reflect.ValueOf(both.Hooks()), reflect.ValueOf(inner.Hooks())
	for i := range got.NumField() {
		if got.Field(i).IsNil() != hooks.Field(i).IsNil() {
			t.Errorf("hook %s: %v, least_ttft's %v", got.Type().Field(i).Name, !got.Field(i).IsNil(),
				!hooks.Field(i).IsNil())
		}
	}
}

// TestPoliciesKnowTheirNames: each calls itself what the configuration calls it, and reserves what it releases.
func TestPoliciesKnowTheirNames(t *testing.T) {
	for _, name := range Names() {
		p := pick.Install(make1(t, name))
		if p.Needs.Name != name {
			t.Errorf("%s calls itself %q", name, p.Needs.Name)
		}
		if (p.Hooks.Reserved == nil) != (p.Hooks.Released == nil) {
			t.Errorf("%s has one of Reserved and Released without the other", name)
		}
		if p.Needs.WhenOnly && p.Hooks.Placed == nil {
			t.Errorf("%s wants to hear of single candidates and has no Placed", name)
		}
	}
}

// arguments are arguments for a hook. The view's conversation has no home.
func arguments(f reflect.Type) (in []reflect.Value) {
	cs := policytest.Same(1)
	for i := range f.NumIn() {
		switch of := f.In(i); of {
		case reflect.TypeFor[*pick.View]():
			in = append(in, reflect.ValueOf(policytest.View(cs, 1)))
		case reflect.TypeFor[*pick.Candidate]():
			in = append(in, reflect.ValueOf(&cs[0]))
		default:
			if of.Kind() == reflect.Pointer {
				in = append(in, reflect.New(of.Elem()))
				continue
			}
			in = append(in, reflect.Zero(of))
		}
	}
	return in
}

// declaredWrappers are the types in the sources of all policies that have a field of type pick.Policy.
func declaredWrappers(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			of, ok := s.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range of.Fields.List {
				if e, ok := f.Type.(*ast.SelectorExpr); ok && e.Sel.Name == "Policy" {
					names = append(names, s.Name.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}
