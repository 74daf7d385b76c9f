package warmpath_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/warmpath/warmpath/internal/madeby"
)

// pages reads every Markdown page of the repository, without what is between fences.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := walk(func(name string) error {
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var kept strings.Builder
		fenced := false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			} else if !fenced {
				kept.WriteString(line)
			}
		}
		out[name] = kept.String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^()\s]+)\)`)
	all := pages(t)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: link %s: %v", name, m[1], err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			target := name
			if u.Path != "" {
				target = path.Join(path.Dir(name), u.Path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link %s leads nowhere", name, m[1])
				continue
			}
			if page, isPage := all[target]; isPage && u.Fragment != "" && !slices.Contains(anchors(page), u.Fragment) {
				t.Errorf("%s: link %s: %s has no such heading", name, m[1], target)
			}
		}
	}
}

// anchors are the fragments by which the headings of a page can be linked to: lower case, without punctuation, spaces
// as hyphens.
func anchors(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		title := strings.TrimSpace(strings.TrimLeft(line, "#"))
		out = append(out, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title))
	}
	return out
}

func TestMetricsNamedInDocsExist(t *testing.T) {
	metric := regexp.MustCompile(`\bwarmpath_[a-z_]+[a-z]\b`)
	reference := pages(t)["docs/metrics.md"]
	for name, text := range pages(t) {
		for _, m := range metric.FindAllString(text, -1) {
			for _, series := range []string{"_bucket", "_sum", "_count"} { // of a histogram
				m = strings.TrimSuffix(m, series)
			}
			if !strings.Contains(reference, "| `"+m+"` |") {
				t.Errorf("%s names the metric %s, which docs/metrics.md does not have", name, m)
			}
		}
	}
}

// TestLabelsNamedInDocsExist: where a page, an alert or a dashboard selects series, the metric has the label, and its
// value is a word of the program, but for models and statuses.
func TestLabelsNamedInDocsExist(t *testing.T) {
	words := map[string]bool{}
	for _, f := range sources(t) {
		if f.test || f.module != "." {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
				if word, err := strconv.Unquote(s.Value); err == nil {
					words[word] = true
				}
			}
			return true
		})
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(warmpath_[a-z_]+)` \\| [a-z]+ \\| ([^|]*) \\|").
		FindAllStringSubmatch(pages(t)["docs/metrics.md"], -1) {
		rows[m[1]] = m[2]
	}
	selector := regexp.MustCompile(`\b(warmpath_[a-z_]+?)(?:_bucket|_sum|_count)?\{([^}` + "`" + `]*)\}`)
	label := regexp.MustCompile(`([a-z_]+)\s*(?:[!=]=?~?\\*\s*\\?"([^"\\]*))?`)
	seen := 0
	err := walk(func(name string) error {
		if !slices.Contains([]string{".md", ".yaml", ".yml", ".json", ".tpl"}, path.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range selector.FindAllStringSubmatch(string(text), -1) {
			for _, l := range label.FindAllStringSubmatch(strings.ReplaceAll(m[2], `\|`, "|"), -1) {
				if seen++; !strings.Contains(rows[m[1]], "`"+l[1]+"`") {
					t.Errorf("%s selects %s by %s, which it does not have", name, m[1], l[1])
				}
				for value := range strings.SplitSeq(l[2], "|") {
					if value != "" && l[1] != "code" && l[1] != "pool" && !strings.ContainsAny(value, "$.*") &&
						!words[value] {
						t.Errorf("%s selects %s with a %s of %s, which nothing says", name, m[1], l[1], value)
					}
				}
			}
		}
		return nil
	})
	if err != nil || seen < 10 {
		t.Fatal(err, seen)
	}
}

// TestConstantsNamedInDocsExist: the constants of the table in docs/mechanisms.md are those of the code.
func TestConstantsNamedInDocsExist(t *testing.T) {
	var code strings.Builder
	for _, dir := range []string{"fit", "policy", "route"} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name)
			code.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	constant := regexp.MustCompile(`(?m)^\s*(?:const )?(\w+)(?: [\w.]+)? += `)
	known := map[string]bool{}
	for _, m := range constant.FindAllStringSubmatch(code.String(), -1) {
		known[m[1]] = true
	}
	_, table, _ := strings.Cut(pages(t)["docs/mechanisms.md"], "| Other constants |")
	table, _, _ = strings.Cut(table, "\n\n")
	name, seen := regexp.MustCompile("`([A-Za-z]+)`"), 0
	for row := range strings.Lines(strings.TrimSpace(table)) {
		cells := strings.Split(row, "|")
		for _, m := range name.FindAllStringSubmatch(cells[max(0, len(cells)-2)], -1) {
			if seen++; !known[m[1]] {
				t.Errorf("docs/mechanisms.md names the constant %s, which the code does not have", m[1])
			}
		}
	}
	if seen < 20 {
		t.Errorf("read %d constants of docs/mechanisms.md", seen)
	}
}

// TestPromisesAreShown: each row of the tables of docs/security.md names a test that shows the promise and settings of
// docs/config.md, all of which exist.
func TestPromisesAreShown(t *testing.T) {
	all := pages(t)
	text, settings := all["docs/security.md"], all["docs/config.md"]
	test := regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	setting := regexp.MustCompile("`([a-z_.]+)`")
	rows := 0
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| threat |") {
			continue
		}
		rows++
		if len(cells) != 4 {
			t.Fatalf("a row has %d cells, want threat, promise, settings and test: %.80s", len(cells), line)
		}
		shown := test.FindAllStringSubmatch(cells[3], -1)
		if len(shown) == 0 {
			t.Errorf("a promise that no test shows: %.80s", line)
		}
		for _, m := range shown {
			dir := m[1]
			if dir == "warmpath" {
				dir = "."
			}
			if !slices.Contains(declared(t, dir), m[2]) {
				t.Errorf("there is no %s in %s", m[2], m[1])
			}
		}
		for _, m := range setting.FindAllStringSubmatch(cells[2], -1) {
			section, key := "Top level", m[1]
			if i := strings.LastIndexByte(m[1], '.'); i >= 0 {
				section, key = "`"+m[1][:i]+"`", m[1][i+1:]
			}
			_, table, _ := strings.Cut(settings, "\n## "+section+"\n")
			table, _, _ = strings.Cut(table, "\n## ")
			if !strings.Contains(table, "\n| `"+key+"` |") {
				t.Errorf("docs/config.md has no setting %s", m[1])
			}
		}
	}
	if rows == 0 {
		t.Error("docs/security.md promises nothing")
	}
}

// TestFiguresAreMade: each block of figures in a page names a test that exists, which CI plays whole and `make figures`
// writes anew, so that a figure that its command no longer makes fails.
func TestFiguresAreMade(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	form := regexp.MustCompile(`^go test \./(\S+) -run (\S+) -long -rewrite( # .+)?$`)
	played := regexp.MustCompile(`go test \./(\S+)(?: -timeout \S+)? -run '([^']+)' -long`)
	n := 0
	for name, text := range pages(t) {
		if path.Dir(name) != "docs" {
			continue
		}
		commands, err := madeby.Commands(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, c := range commands {
			n++
			m := form.FindStringSubmatch(c)
			if m == nil {
				t.Errorf("%s: %q is not of the form go test ./PACKAGE -run NAME -long -rewrite", name, c)
				continue
			}
			want, test := regexp.MustCompile(m[2]), ""
			for _, f := range declared(t, m[1]) {
				if strings.HasPrefix(f, "Test") && want.MatchString(f) {
					test = f
				}
			}
			if test == "" {
				t.Errorf("%s: no test in %s is called %s", name, m[1], m[2])
				continue
			}
			for _, file := range []string{".ci/run", "Makefile"} {
				p := played.FindStringSubmatch(read(file))
				if p == nil || p[1] != m[1] || !regexp.MustCompile(p[2]).MatchString(test) {
					t.Errorf("%s does not play %s with -long, which makes figures of %s", file, test, name)
				}
			}
		}
	}
	if n < 5 {
		t.Errorf("%d blocks of figures were found", n)
	}
}

// declared lists the functions in the test files of a folder.
func declared(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// TestToolsArePinned: what CI runs is named by version or commit, and modules are checked against go.sum before
// anything is built.
func TestToolsArePinned(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	run, hosted := read(".ci/run"), read(".github/workflows/ci.yml")
	if verify, build := strings.Index(run, "\ngo mod verify"), strings.Index(run, "\ngo vet"); verify < 0 ||
		verify > build {
		t.Error(".ci/run does not begin with go mod verify")
	}
	if !strings.Contains(hosted, "govulncheck@v") {
		t.Error("the hosted workflow does not run govulncheck")
	}
	action, tool := regexp.MustCompile(`uses: (\S+)`), regexp.MustCompile(`[a-z0-9./-]+\.[a-z]+/[a-z0-9./-]+@(\S+)`)
	commit, version := regexp.MustCompile(`@[0-9a-f]{40}$`), regexp.MustCompile(`^v\d+\.\d+\.\d+$`)
	actions := action.FindAllStringSubmatch(hosted+read(".github/workflows/site.yml"), -1)
	for _, m := range actions {
		if !commit.MatchString(m[1]) {
			t.Errorf("the action %s is not pinned to a commit", m[1])
		}
	}
	for line := range strings.Lines(read("site/requirements.txt")) {
		if strings.Contains(line, "==") && !strings.HasSuffix(line, " \\\n") {
			t.Errorf("site/requirements.txt: %sis not pinned to a hash", line)
		}
	}
	tools := 0
	for _, text := range []string{
		run, read("Makefile"),
		strings.Join(regexp.MustCompile(`(?m)^.*go (run|install) .*$`).FindAllString(hosted, -1), "\n"),
	} {
		for _, m := range tool.FindAllStringSubmatch(text, -1) {
			tools++
			if !version.MatchString(m[1]) {
				t.Errorf("%s is not pinned to a version", m[0])
			}
		}
	}
	if len(actions) == 0 || tools < 5 {
		t.Errorf("%d actions and %d tools were found", len(actions), tools)
	}
}
