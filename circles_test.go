package warmpath_test

import (
	"go/ast"
	"go/build"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"testing"
)

// maxCircle is how many files of one package may refer to each other in a circle. A larger one is several ideas in one package.
const maxCircle = 12

// TestCircles holds each package to small circles: files are in one circle if each refers, directly or through others,
// to what the other declares (types, functions, methods, fields, variables, constants).
func TestCircles(t *testing.T) {
	files := map[string][]*ast.File{}
	var fset *token.FileSet
	for _, f := range sources(t) {
		dir, name := path.Split(f.path)
		dir = path.Clean(dir)
		fset = f.fset
		built, err := build.Default.MatchFile(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		if built && f.module == "." && !f.test {
			files[dir] = append(files[dir], f.ast)
		}
	}
	imports := exportData(t, fset)
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
		config := types.Config{Importer: imports, Error: func(err error) { t.Errorf("%s does not compile: %v", dir, err) }}
		pkg, _ := config.Check(module+"/"+dir, fset, files[dir], info)
		circle := largestCircle(references(fset, pkg, info))
		if len(circle) > maxCircle {
			t.Errorf("%s: %d files refer to each other in a circle, more than %d: give an idea among them a package of its own: %v",
				dir, len(circle), maxCircle, circle)
		}
		t.Logf("%s: %d of %d files", dir, len(circle), len(files[dir]))
	}
}

// references has for each file of a package the files that declare what it uses.
func references(fset *token.FileSet, pkg *types.Package, info *types.Info) map[string]map[string]bool {
	refs := map[string]map[string]bool{}
	for id, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		if _, isImport := object.(*types.PkgName); isImport {
			continue
		}
		from, to := path.Base(fset.Position(id.Pos()).Filename), path.Base(fset.Position(object.Pos()).Filename)
		if from == to {
			continue
		}
		if refs[from] == nil {
			refs[from] = map[string]bool{}
		}
		refs[from][to] = true
	}
	return refs
}

// largestCircle is the largest set of files each of which reaches every other; a file alone if there is none.
func largestCircle(refs map[string]map[string]bool) []string {
	reach := map[string]map[string]bool{}
	for from := range refs {
		reach[from] = map[string]bool{}
		for todo := []string{from}; len(todo) > 0; {
			next := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for to := range refs[next] {
				if !reach[from][to] {
					reach[from][to] = true
					todo = append(todo, to)
				}
			}
		}
	}
	var largest []string
	for from := range reach {
		circle := []string{from}
		for to := range reach[from] {
			if to != from && reach[to][from] {
				circle = append(circle, to)
			}
		}
		if len(circle) > len(largest) {
			largest = circle
		}
	}
	slices.Sort(largest)
	return largest
}

func TestLargestCircle(t *testing.T) {
	refs := map[string]map[string]bool{
		"a": {"b": true}, "b": {"c": true}, "c": {"a": true, "d": true}, "d": {"e": true}, "e": {"d": true}, "f": {"a": true},
	}
	if got, want := largestCircle(refs), []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("largestCircle = %v, want %v", got, want)
	}
}
