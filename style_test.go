package warmpath_test

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestPackageNames(t *testing.T) {
	for _, f := range sources(t) {
		if name := f.ast.Name.Name; slices.Contains([]string{"utils", "util", "common", "helpers", "helper", "types", "manager", "misc", "base"}, name) {
			t.Errorf("%s: package %s says nothing: name it after what it is", f.path, name)
		}
	}
}

func TestNoInit(t *testing.T) {
	for _, f := range sources(t) {
		if strings.HasPrefix(f.path, "cmd/") {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init runs before anyone can hand anything in: use a constructor", f.at(fn))
			}
		}
	}
}

// TestDocumented holds every package to one doc comment and every exported name to one sentence.
func TestDocumented(t *testing.T) {
	docs := map[string][]string{} // folder -> files with a package comment
	names := map[string]string{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		dir := path.Dir(f.path)
		names[dir] = f.ast.Name.Name
		if f.ast.Doc != nil {
			docs[dir] = append(docs[dir], f.path)
			want := "Package " + f.ast.Name.Name + " "
			if f.ast.Name.Name == "main" {
				want = "Command "
			}
			if !strings.HasPrefix(f.ast.Doc.Text(), want) {
				t.Errorf("%s: the package comment begins %q, want %q", f.path, firstWords(f.ast.Doc.Text()), want)
			}
		}
		if f.ast.Name.Name == "main" || ast.IsGenerated(f.ast) {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				checkFunc(t, f, d)
			case *ast.GenDecl:
				checkDecl(t, f, d)
			}
		}
	}
	for dir := range names {
		switch n := len(docs[dir]); {
		case n == 0:
			t.Errorf("package %s has no doc comment", dir)
		case n > 1:
			t.Errorf("package %s has its doc comment in several files: %s", dir, strings.Join(docs[dir], ", "))
		}
	}
}

// checkFunc wants a comment on exported functions and on exported methods of exported types, but for the methods whose
// meaning the language fixes.
func checkFunc(t *testing.T, f *source, d *ast.FuncDecl) {
	t.Helper()
	if !d.Name.IsExported() {
		return
	}
	if d.Recv != nil {
		if !ast.IsExported(receiver(d)) || slices.Contains([]string{"Error", "Unwrap", "Is", "As"}, d.Name.Name) {
			return
		}
	}
	checkComment(t, f, d, d.Name.Name, d.Doc)
}

func checkDecl(t *testing.T, f *source, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				doc := spec.Doc
				if doc == nil && !d.Lparen.IsValid() {
					doc = d.Doc
				}
				checkComment(t, f, spec, spec.Name.Name, doc)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() && spec.Doc == nil && spec.Comment == nil && d.Doc == nil {
					t.Errorf("%s: exported %s %s has no comment", f.at(name), d.Tok, name.Name)
				}
			}
		}
	}
}

func checkComment(t *testing.T, f *source, n ast.Node, name string, doc *ast.CommentGroup) {
	t.Helper()
	if doc == nil {
		t.Errorf("%s: exported %s has no comment", f.at(n), name)
		return
	}
	text := doc.Text()
	for _, article := range []string{"A ", "An ", "The "} {
		text = strings.TrimPrefix(text, article)
	}
	rest, ok := strings.CutPrefix(text, name)
	if !ok || rest != "" && token.IsIdentifier(rest[:1]) {
		t.Errorf("%s: the comment on %s begins %q, want its name first", f.at(n), name, firstWords(doc.Text()))
	}
}

// receiver is the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func firstWords(s string) string {
	words := strings.Fields(s)
	return strings.Join(words[:min(len(words), 4)], " ")
}
