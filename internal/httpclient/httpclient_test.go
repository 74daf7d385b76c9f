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

// TestHeads: the head of an answer has a bound, with a transport of its own or not.
func TestHeads(t *testing.T) {
	long := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range httpclient.HeadBytes / 1000 {
			w.Header().Add("x-fill", strings.Repeat("a", 1000))
		}
	}))
	defer long.Close()
	for name, of := range map[string]http.RoundTripper{"usual": nil, "own": httpclient.Transport()} {
		client := httpclient.New(of)
		if res, err := client.Get(long.URL); err == nil {
			_ = res.Body.Close()
			t.Errorf("%s: %d fields were taken", name, len(res.Header["X-Fill"]))
		} else if !strings.Contains(err.Error(), "headers exceeded") {
			t.Errorf("%s: %v", name, err)
		}
		client.CloseIdleConnections()
	}
}

// TestNoProxy: where the environment names a proxy, an engine is asked directly all the same, as clients' requests are.
func TestNoProxy(t *testing.T) {
	if httpclient.Transport().Proxy != nil {
		t.Error("the environment's proxy is asked for what is meant for an engine")
	}
}

// TestEveryClient: no code makes a client that follows redirects, or uses net/http's own, nor a transport that does not
// bound the heads of answers.
func TestEveryClient(t *testing.T) {
	follow := []string{"Client", "DefaultClient", "Get", "Head", "Post", "PostForm", "DefaultTransport"}
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
				case *ast.CompositeLit:
					of, ok := x.Type.(*ast.SelectorExpr)
					if !ok || of.Sel.Name != "Transport" || !named(of.X, "http") ||
						slices.ContainsFunc(x.Elts, bounds) {
						return true
					}
					t.Errorf("%s makes a http.Transport whose MaxResponseHeaderBytes is not set", name)
				case *ast.StarExpr: // a client that somebody else has made
					return false
				case *ast.SelectorExpr:
					if named(x.X, "http") && slices.Contains(follow, x.Sel.Name) {
						t.Errorf("%s uses http.%s: it follows redirects, or takes endless heads", name, x.Sel.Name)
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

func named(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

// bounds reports whether a field of a transport bounds the heads of answers.
func bounds(x ast.Expr) bool {
	field, ok := x.(*ast.KeyValueExpr)
	return ok && named(field.Key, "MaxResponseHeaderBytes")
}
