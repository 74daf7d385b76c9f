package warmpath_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"iter"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	// What is slow to compile. exportFiles has "go list" compile all packages; where this test needs these, they have
	// been compiled by then, and are not compiled twice at the same time.
	_ "github.com/warmpath/warmpath/internal/discovery/etcd"
	_ "github.com/warmpath/warmpath/internal/discovery/kube"
	_ "github.com/warmpath/warmpath/internal/extproc"
	_ "github.com/warmpath/warmpath/internal/live"
	_ "github.com/warmpath/warmpath/internal/peers"
	_ "github.com/warmpath/warmpath/internal/simreport"
	_ "github.com/warmpath/warmpath/internal/tracing"
)

// pureImports are the packages of the standard library whose functions depend on their arguments alone. A pure package
// imports nothing else of it.
var pureImports = []string{
	"bufio", "bytes", "cmp", "container/heap", "container/list", "crypto/hmac", "crypto/sha256", "encoding",
	"encoding/base64", "encoding/binary", "encoding/hex",
	"encoding/json", "errors", "fmt", "io", "iter", "maps", "math", "math/big", "math/bits", "math/rand/v2", "reflect",
	"runtime", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf16", "unicode/utf8",
}

// whyImpure says what to do instead of the imports most often reached for.
var whyImpure = map[string]string{
	"crypto/rand": "take a *rand.Rand that was seeded by the caller",
	"log":         "return what happened; internal/live tells the log",
	"log/slog":    "return what happened; internal/live tells the log",
	"math/rand":   "take a *math/rand/v2.Rand that was seeded by the caller",
	"net":         "take bytes and return values; internal/ owns the sockets",
	"net/http":    "take bytes and return values; internal/ owns the sockets",
	"os":          "take bytes and return values; cmd and internal/ own the files",
	"sync":        "a pure value serves one caller at a time; internal/live holds the lock",
	"sync/atomic": "a pure value serves one caller at a time; internal/live holds the lock",
	"syscall":     "take bytes and return values; internal/ talks to the system",
}

// impure are the functions and variables that pure packages may import the package of, but not use.
var impure = map[string]string{
	"time.Now": "take now as an argument", "time.Since": "take now as an argument",
	"time.Until": "take now as an argument", "time.Sleep": "return when to wake up",
	"time.After": "return when to wake up", "time.Tick": "return when to wake up",
	"time.NewTimer": "return when to wake up", "time.NewTicker": "return when to wake up",
	"time.AfterFunc": "return when to wake up", "time.Local": "the zone of the machine is not an argument",
	"time.LoadLocation": "it reads files", "fmt.Print": "return the text", "fmt.Printf": "return the text",
	"fmt.Println": "return the text", "fmt.Scan": "it reads standard input", "fmt.Scanf": "it reads standard input",
	"fmt.Scanln": "it reads standard input", "maps.All": "the order of a map is chance; keep a slice or sort",
	"maps.Keys":   "the order of a map is chance; keep a slice or sort",
	"maps.Values": "the order of a map is chance; keep a slice or sort",
}

// tables are the package variables of the pure floor beside errors. They are read and never written.
var tables = []string{
	"engine.absentPaths",
	"engine/answer.anthropicErrors",
	"engine/handover.inside",
	"fleet.outcomeNames",
	"prompt.apiNames",
	"prompt.fieldNames", "prompt.fieldsByLength",
	"prompt/jsonscan.deep",
	"prompt/jsonscan.hexValue",
	"prompt/jsonscan.isEscape",
	"prompt/jsonscan.kindNames",
	"prompt/jsonscan.wide", // what the processor can
	"route/internal/arrivals.firstTick",
	"sim/text.words",
}

// fills says which package fills in which part of a row or view of package pick. Nobody else writes to one, so that
// each value has one meaning. Shadow evaluation makes rows of its own.
var fills = map[string][]string{
	"Candidate":  {"pick", "route", "route/shadow"},
	"Endpoint":   {"route", "route/shadow"},
	"Cached":     {"pick", "route/internal/cache", "route/shadow"},
	"Pace":       {"route/internal/speed"},
	"Wait":       {"route/internal/backlog", "route/shadow"},
	"DecodePace": {"route/internal/speed"},
	"Demand":     {"route/internal/arrivals", "route/shadow"},
	"Link":       {"route/internal/backlog"},
	"Terms":      {"route/cost", "policy/leastttft"},       // the latter Spread
	"View":       {"route", "route/shadow", "policy/rank"}, // the last CacheGate
}

// TestPure: packages of the pure floor depend on their arguments alone, and change no row that another one fills in.
func TestPure(t *testing.T) {
	files := map[string][]*ast.File{}
	var fset *token.FileSet
	for _, f := range sources(t) {
		fset = f.fset
		if dir := path.Dir(f.path); isPure(dir) && f.module == "." && !f.test {
			files[dir] = append(files[dir], f.ast)
		}
	}
	imports := exportData(t, fset)
	var found []string
	for dir, parsed := range files {
		info := &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{},
		}
		config := types.Config{
			Importer: imports, Error: func(err error) { t.Errorf("%s does not compile: %v", dir, err) },
		}
		pkg, _ := config.Check(module+"/"+dir, fset, parsed, info)
		c := purity{t: t, fset: fset, files: parsed, pkg: pkg, info: info, name: dir}
		c.imports()
		for _, f := range parsed {
			ast.Inspect(f, c.node)
		}
		found = append(found, c.variables()...)
	}
	for _, name := range tables {
		if !slices.Contains(found, name) {
			t.Errorf("the list of tables in pure_test.go names %s, which is not there", name)
		}
	}
}

// exportData makes the importer that type checking needs, from what the compiler wrote about each package.
func exportData(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	exports, err := exportFiles()
	if err != nil {
		t.Fatal(err)
	}
	return importer.ForCompiler(fset, "gc", func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) })
}

var exportFiles = sync.OnceValues(func() (map[string]string, error) {
	var faults strings.Builder
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "./...")
	list.Stderr = &faults
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, faults.String())
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[name] = file
	}
	return exports, nil
})

// purity checks one package of the pure floor.
type purity struct {
	t     *testing.T
	fset  *token.FileSet
	files []*ast.File
	pkg   *types.Package
	info  *types.Info
	name  string
}

func (c *purity) fault(n ast.Node, format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("%s: %s", c.fset.Position(n.Pos()), fmt.Sprintf(format, args...))
}

func (c *purity) imports() {
	for _, f := range c.files {
		for _, spec := range f.Imports {
			name := strings.Trim(spec.Path.Value, `"`)
			if strings.Contains(strings.Split(name, "/")[0], ".") || slices.Contains(pureImports, name) {
				continue // the floor plan knows about ours and those of others
			}
			why := whyImpure[name]
			if why == "" {
				why = "it is not on the list of pure_test.go; add it if its functions depend on their arguments alone"
			}
			c.fault(spec, "a pure package may not import %s: %s", name, why)
		}
	}
}

func (c *purity) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.fault(n, "go statement in a pure package: return what should run; internal/ starts goroutines")
	case *ast.SelectStmt:
		c.fault(n, "select in a pure package: it chooses by chance and waits for others")
	case *ast.RangeStmt:
		if overMap(c.info.TypeOf(n.X)) {
			c.fault(n, "ranging over a map in a pure package: its order is chance; keep a slice or sort")
		}
	case *ast.FuncDecl:
		if n.Recv == nil && n.Name.Name == "init" {
			c.fault(n, "init in a pure package: what it sets up belongs in a constructor")
		}
	case *ast.Ident:
		c.use(n)
	case *ast.AssignStmt:
		for _, target := range n.Lhs {
			c.written(target)
			c.filled(target)
		}
	case *ast.IncDecStmt:
		c.written(n.X)
		c.filled(n.X)
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			c.written(n.X)
		}
	}
	return true
}

// overMap is true of maps and of type parameters that stand for maps.
func overMap(t types.Type) bool {
	if t == nil {
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Interface:
		for e := range u.EmbeddedTypes() {
			if union, ok := e.(*types.Union); ok {
				for term := range union.Terms() {
					if overMap(term.Type()) {
						return true
					}
				}
			}
		}
	}
	return false
}

// use refuses functions and variables that depend on more than their arguments.
func (c *purity) use(id *ast.Ident) {
	o := c.info.Uses[id]
	if o == nil || o.Pkg() == nil || o.Pkg() == c.pkg {
		return
	}
	if f, ok := o.(*types.Func); ok {
		if f.Signature().Recv() != nil {
			if o.Pkg().Path() == "time" && o.Name() == "Local" {
				c.fault(id, "(time.Time).Local in a pure package: the zone of the machine is not an argument")
			}
			return
		}
		if o.Pkg().Path() == "math/rand/v2" && !strings.HasPrefix(o.Name(), "New") {
			c.fault(id, "rand.%s in a pure package: it draws from the process's chance; take a *rand.Rand", o.Name())
		}
	}
	if o.Pkg().Path() == "runtime" && o.Name() != "GOARCH" {
		c.fault(id, "runtime.%s in a pure package: only the name of the architecture is an argument", o.Name())
	}
	name := o.Pkg().Path() + "." + o.Name()
	if why, bad := impure[name]; bad && o.Parent() == o.Pkg().Scope() {
		c.fault(id, "%s in a pure package: %s", name, why)
	}
}

// written refuses to change a package variable, or a part of one, or to hand out its address.
func (c *purity) written(e ast.Expr) {
	for part := range parts(e) {
		switch x := part.(type) {
		case *ast.SelectorExpr:
			if o, ok := c.info.Uses[x.Sel].(*types.Var); ok && !o.IsField() {
				c.fault(x, "a pure package changes the variable %s.%s", o.Pkg().Name(), o.Name())
				return
			}
		case *ast.Ident:
			if o, ok := c.info.Uses[x].(*types.Var); ok && o.Pkg() != nil && o.Parent() == o.Pkg().Scope() {
				c.fault(x, "a pure package changes its variable %s: keep state in a value that the caller owns",
					o.Name())
			}
		}
	}
}

// parts are the selectors of an expression that can be assigned to, the last first, and the identifier in front.
func parts(e ast.Expr) iter.Seq[ast.Expr] {
	return func(yield func(ast.Expr) bool) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			case *ast.SliceExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.SelectorExpr:
				if !yield(x) {
					return
				}
				e = x.X
			case *ast.Ident:
				yield(x)
				return
			default:
				return
			}
		}
	}
}

// filled refuses to change a part of a row that another package fills in.
func (c *purity) filled(e ast.Expr) {
	if _, ok := e.(*ast.StarExpr); ok {
		return // what a part points to is not of the row
	}
	for part := range parts(e) {
		x, ok := part.(*ast.SelectorExpr)
		if !ok {
			return
		}
		o, ok := c.info.Uses[x.Sel].(*types.Var)
		if !ok || !o.IsField() || o.Pkg().Path() != module+"/pick" {
			continue
		}
		row := structOf(o)
		if owners := fills[row]; owners != nil && !slices.Contains(owners, c.name) && !plan[c.name].tests {
			c.fault(x, "pick.%s.%s is filled in by %s alone", row, o.Name(), strings.Join(owners, ", "))
		}
		return
	}
}

// structOf is the name of the type that has a field.
func structOf(field *types.Var) string {
	scope := field.Pkg().Scope()
	for _, name := range scope.Names() {
		s, ok := scope.Lookup(name).Type().Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for f := range s.Fields() {
			if f == field {
				return name
			}
		}
	}
	return ""
}

// variables refuses package variables that are neither errors nor tables, and returns the names of the tables.
func (c *purity) variables() (found []string) {
	scope := c.pkg.Scope()
	isError := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	for _, name := range scope.Names() {
		v, ok := scope.Lookup(name).(*types.Var)
		if !ok || types.Implements(v.Type(), isError) {
			continue
		}
		full := c.name + "." + name
		if !slices.Contains(tables, full) {
			c.t.Errorf("%s: package variable %s in a pure package: put it in a value that the caller owns, or, "+
				"if it is a table that nobody writes to, in the list of pure_test.go", c.fset.Position(v.Pos()), name)
			continue
		}
		found = append(found, full)
	}
	return found
}
