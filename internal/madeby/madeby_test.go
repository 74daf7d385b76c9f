package madeby_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/madeby"
)

const page = `# Page

<!-- made by: a -x -->
| name | figure |
|---|---|
| one | 1 |
| two | 2 |
<!-- end -->

<!-- made by: b -->
<!-- end -->
rest
`

// told is a test that fails, as far as this one is concerned.
type told struct {
	testing.TB
	said string
}

func (t *told) Helper() {}

func (t *told) Errorf(format string, args ...any) { t.said += format }

func (t *told) Fatalf(format string, args ...any) { t.said += format; panic(t) }

// fails reports whether a check fails.
func fails(t *testing.T, check func(t testing.TB)) bool {
	t.Helper()
	x := &told{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(x) {
				panic(r)
			}
		}()
		check(x)
	}()
	return x.said != ""
}

func TestBlock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	same := "| name | figure |\n|---|---|\n| one | 1 |\n| two | 2 |\n"
	other := strings.Replace(same, "2 |", "3 |", 1)
	if fails(t, func(t testing.TB) { madeby.Block(t, file, "a -x", same, false) }) {
		t.Error("what is the same fails")
	}
	for name, check := range map[string]func(t testing.TB){
		"another figure": func(t testing.TB) { madeby.Block(t, file, "a -x", other, false) },
		"less":           func(t testing.TB) { madeby.Block(t, file, "a -x", "", false) },
		"more":           func(t testing.TB) { madeby.Block(t, file, "b", same, false) },
		"no such block":  func(t testing.TB) { madeby.Block(t, file, "c", "", false) },
	} {
		if !fails(t, check) {
			t.Errorf("%s passes", name)
		}
	}
	madeby.Block(t, file, "a -x", other, true)
	got, err := os.ReadFile(file)
	if want := strings.Replace(page, "| two | 2 |", "| two | 3 |", 1); err != nil || string(got) != want {
		t.Errorf("rewritten is %q, %v", got, err)
	}
}

func TestCommands(t *testing.T) {
	got, err := madeby.Commands(page)
	if err != nil || strings.Join(got, ",") != "a -x,b" {
		t.Errorf("%q, %v", got, err)
	}
	for name, bad := range map[string]string{
		"no end": "<!-- made by: a -->\nx\n",
		"nested": "<!-- made by: a -->\n<!-- made by: b -->\n<!-- end -->\n",
		"twice":  "<!-- made by: a -->\n<!-- end -->\n<!-- made by: a -->\n<!-- end -->\n",
	} {
		if _, err := madeby.Commands(bad); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}
