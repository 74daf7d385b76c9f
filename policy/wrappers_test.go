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

// optional are the interfaces of pick that a policy may have, by name.
var optional = map[string]reflect.Type{
	"Placing":      reflect.TypeFor[pick.Placing](),
	"Keeping":      reflect.TypeFor[pick.Keeping](),
	"Stepping":     reflect.TypeFor[pick.Stepping](),
	"Forgetting":   reflect.TypeFor[pick.Forgetting](),
	"Counting":     reflect.TypeFor[pick.Counting](),
	"Awaiting":     reflect.TypeFor[pick.Awaiting](),
	"Shortlisting": reflect.TypeFor[pick.Shortlisting](),
	"Hearing":      reflect.TypeFor[pick.Hearing](),
}

// wrappers make each policy that has another one inside, by the name of its type.
var wrappers = map[string]func(pick.Policy) pick.Policy{"sessionPolicy": basic.NewSession}

// all is a policy with every optional interface, which notes the methods that were called.
type all struct{ called map[string]bool }

func (p all) note(s string) bool { p.called[s] = true; return true }

func (p all) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{} }

func (p all) Placed(*pick.View, *fleet.Request, pick.Choice) { p.note("Placed") }

func (p all) Reserved(fleet.Lease, *pick.Candidate, *pick.View, *fleet.Request) { p.note("Reserved") }

func (p all) Released(fleet.Lease, bool) { p.note("Released") }

func (p all) StepsAlone() bool { return p.note("StepsAlone") }

func (p all) Forget(uint64) { p.note("Forget") }

func (p all) CountsBlocks() bool { return p.note("CountsBlocks") }

func (p all) AwaitsReturns() bool { return p.note("AwaitsReturns") }

func (p all) Shortlists() bool { return p.note("Shortlists") }

func (p all) Heard(*pick.Heard) { p.note("Heard") }

// plain is a policy without any.
type plain struct{}

func (plain) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{} }

// TestWrappersForward: a policy with another inside has every optional interface that the inner one has, and each call reaches it.
// Asked whether it wants something, it answers as the inner one would.
func TestWrappersForward(t *testing.T) {
	if declared := declaredInterfaces(t); !slices.Equal(declared, slices.Sorted(maps.Keys(optional))) {
		t.Fatalf("package pick has the optional interfaces %v, the test knows %v", declared, slices.Sorted(maps.Keys(optional)))
	}
	if found := declaredWrappers(t); !slices.Equal(found, slices.Sorted(maps.Keys(wrappers))) {
		t.Fatalf("policies with another inside are %v, the test knows %v", found, slices.Sorted(maps.Keys(wrappers)))
	}
	for name, wrap := range wrappers {
		inner := all{called: map[string]bool{}}
		full, empty := reflect.ValueOf(wrap(inner)), reflect.ValueOf(wrap(plain{}))
		for word, of := range optional {
			if !reflect.TypeOf(inner).Implements(of) {
				t.Fatalf("the test's policy is not %s", word)
			}
			if !full.Type().Implements(of) {
				t.Errorf("%s is not %s although the policy inside is", name, word)
				continue
			}
			for i := range of.NumMethod() {
				m := of.Method(i)
				if m.Name == "Pick" {
					continue
				}
				clear(inner.called)
				out := full.MethodByName(m.Name).Call(arguments(m.Type))
				if !inner.called[m.Name] && !(m.Name == "StepsAlone" && out[0].Bool()) { // a policy that keeps count steps always
					t.Errorf("%s does not pass %s on", name, m.Name)
				}
				if !empty.Type().Implements(of) {
					continue
				}
				if out := empty.MethodByName(m.Name).Call(arguments(m.Type)); len(out) == 1 && out[0].Bool() {
					t.Errorf("%s around a policy without %s answers yes to %s", name, word, m.Name)
				}
			}
		}
	}
}

// arguments are arguments for a method of an interface.
func arguments(m reflect.Type) (in []reflect.Value) {
	cs := policytest.Same(1)
	for i := range m.NumIn() {
		switch of := m.In(i); of {
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

// declaredInterfaces are the interfaces in the source of pick, other than Policy itself.
func declaredInterfaces(t *testing.T) (names []string) {
	t.Helper()
	types(t, "../pick", func(s *ast.TypeSpec) {
		if _, ok := s.Type.(*ast.InterfaceType); ok && s.Name.Name != "Policy" {
			names = append(names, s.Name.Name)
		}
	})
	slices.Sort(names)
	return names
}

// declaredWrappers are the types in the sources of all policies that have a field of type pick.Policy.
func declaredWrappers(t *testing.T) (names []string) {
	t.Helper()
	types(t, ".", func(s *ast.TypeSpec) {
		of, ok := s.Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, f := range of.Fields.List {
			if e, ok := f.Type.(*ast.SelectorExpr); ok && e.Sel.Name == "Policy" {
				names = append(names, s.Name.Name)
			}
		}
	})
	slices.Sort(names)
	return names
}

// types calls f with each type declared below a folder, outside tests.
func types(t *testing.T, folder string, f func(*ast.TypeSpec)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				f(s)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
