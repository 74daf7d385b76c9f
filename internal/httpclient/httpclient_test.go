package httpclient_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/httpclient"
)

func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		here := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		for _, method := range []string{"GET", "POST"} {
			req, err := http.NewRequest(method, here.URL, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			res, err := httpclient.New(nil).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != status {
				t.Errorf("%s with %d: the answer is %d", method, status, res.StatusCode)
			}
		}
		here.Close()
	}
	if asked != 0 {
		t.Errorf("%d requests elsewhere", asked)
	}
}

// TestEveryClient: no code makes a client that follows redirects, or uses net/http's own.
func TestEveryClient(t *testing.T) {
	follow := []string{"Client", "DefaultClient", "Get", "Head", "Post", "PostForm"}
	files := 0
	for _, root := range []string{"../../cmd", "../../internal"} {
		err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
				strings.HasSuffix(name, "httpclient.go") {
				return err
			}
			files++
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.StarExpr: // a client that somebody else has made
					return false
				case *ast.SelectorExpr:
					if of, ok := x.X.(*ast.Ident); ok && of.Name == "http" && slices.Contains(follow, x.Sel.Name) {
						t.Errorf("%s uses http.%s: it follows redirects, httpclient.New does not", name, x.Sel.Name)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
}
