package warmpath_test

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"testing"
)

// uncalled are names that only tests use, and why they stay.
var uncalled = map[string]string{
	"route/internal/health.Trials":  "the tests' Router.Idle asks the rooms what is left when no lease is open",
	"route/internal/backlog.Audit":  "the same",
	"route/internal/speed.Audit":    "the same",
	"route/internal/registry.Audit": "the same",
}

// fixed are methods that the language's library and others call by their name.
var fixed = []string{"Collect", "Less", "MarshalText", "ReadFrom", "Ticks", "UnmarshalJSON"}

// TestEverythingIsCalled: what a package declares is used outside tests too. Names are compared, not what they mean, so that a name that
// two packages declare passes when one of them is used.
func TestEverythingIsCalled(t *testing.T) {
	declared, used := map[string][]string{}, map[string]int{} // by name: where, and how often
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		dir := path.Dir(f.path)
		note := func(names ...*ast.Ident) {
			for _, n := range names {
				used[n.Name]--
				if !plan[dir].tests && n.Name != "_" && n.Name != "main" && !slices.Contains(fixed, n.Name) {
					declared[n.Name] = append(declared[n.Name], dir+"."+n.Name)
				}
			}
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				note(d.Name)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						note(s.Names...)
					case *ast.TypeSpec:
						note(s.Name)
					}
				}
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				used[id.Name]++
			}
			return true
		})
	}
	left := maps.Clone(uncalled)
	for name, where := range declared {
		if used[name] > 0 {
			continue
		}
		for _, at := range where {
			if _, ok := uncalled[at]; !ok {
				t.Errorf("only tests use %s: remove it, move it to a test file, or say in uncalled why it stays", at)
			}
			delete(left, at)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("%s is used, or gone: it need not be in uncalled", at)
	}
}
