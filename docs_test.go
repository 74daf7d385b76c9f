package warmpath_test

import (
	"go/ast"
	"go/token"
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
	"unicode/utf8"

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

// anchors are the fragments by which the headings of a page can be linked to: lower case, without punctuation, spaces as
// hyphens.
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

// TestLabelsNamedInDocsExist: where a page, an alert or a dashboard selects series, the metric has the label, and its value is a word
// of the program.
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
	for _, m := range regexp.MustCompile("(?m)^\\| `(warmpath_[a-z_]+)` \\| [a-z]+ \\| ([^|]*) \\|").FindAllStringSubmatch(pages(t)["docs/metrics.md"], -1) {
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
					if value != "" && l[1] != "code" && !strings.ContainsAny(value, "$.*") && !words[value] {
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

// The longest line of prose, in characters, and the longest decision, in words.
const (
	longestLine     = 200
	longestDecision = 700
)

// TestPagesAreShort holds README.md and docs/ to lines that fit a screen, and each decision to about a page. Rows of tables cannot be
// wrapped.
func TestPagesAreShort(t *testing.T) {
	except := []string{
		"docs/config.md", "docs/metrics.md", "docs/results.md", "docs/results-disagg.md", // written by programs
	}
	decisions := 0
	for name, text := range pages(t) {
		dir := path.Dir(name)
		if name != "README.md" && name != "SECURITY.md" && dir != "docs" && dir != "docs/decisions" || slices.Contains(except, name) {
			continue
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			table, code := strings.HasPrefix(line, "|"), strings.HasPrefix(line, "    ")
			if n := utf8.RuneCountInString(line); n > longestLine && !table && !code {
				t.Errorf("%s: a line of prose has %d characters, more than %d: wrap it: %.60s...", name, n, longestLine, line)
			}
		}
		if dir != "docs/decisions" || path.Base(name) == "README.md" {
			continue
		}
		decisions++
		if n := words(text); n > longestDecision {
			t.Errorf("%s has %d words, more than %d: a decision is one page", name, n, longestDecision)
		}
	}
	if decisions == 0 {
		t.Error("there are no decisions to look at")
	}
}

// words counts what has a letter or a digit in it, so that the lines of tables cost nothing.
func words(text string) int {
	n := 0
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// TestGlossary holds the glossary to its form: a table from other systems' words to terms that the page defines, and the terms,
// both in order, each word and term once.
func TestGlossary(t *testing.T) {
	text := pages(t)["docs/glossary.md"]
	inOrder := func(what string, names []string) {
		for i, name := range names {
			if i > 0 && strings.ToLower(name) <= strings.ToLower(names[i-1]) {
				t.Errorf("%s %q comes after %q", what, name, names[i-1])
			}
		}
	}

	var terms []string
	for _, m := range regexp.MustCompile(`(?m)^\*\*(.+)\.\*\* \S`).FindAllStringSubmatch(text, -1) {
		terms = append(terms, m[1])
	}
	if len(terms) == 0 {
		t.Fatal("docs/glossary.md defines no terms")
	}
	inOrder("term", terms)

	var words []string
	target := regexp.MustCompile(`\*\*(.+?)\*\*`)
	for _, row := range regexp.MustCompile(`(?m)^\| (.+?) \| (\*\*.+?) \|`).FindAllStringSubmatch(text, -1) {
		words = append(words, row[1])
		for _, m := range target.FindAllStringSubmatch(row[2], -1) {
			if !slices.Contains(terms, m[1]) {
				t.Errorf("%q leads to %q, which the page does not define", row[1], m[1])
			}
		}
	}
	if len(words) == 0 {
		t.Fatal("docs/glossary.md leads from no word to a term")
	}
	inOrder("word", words)
	for _, word := range words {
		if slices.Contains(terms, word) {
			t.Errorf("%q is a term and also a word of other systems", word)
		}
	}
}

// TestPromisesAreShown holds docs/security.md to its form: each row of its tables names a test that shows it, tests that exist, and
// settings that docs/config.md has.
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
			t.Errorf("a row has %d cells, want 4: %.80s", len(cells), line)
			continue
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
			if !slices.Contains(declared(t, "./"+dir), m[2]) {
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

// TestFiguresAreMade: each block of figures in a page names a test that exists, which CI plays whole and `make figures` writes anew, so that
// a figure that its command no longer makes fails.
func TestFiguresAreMade(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	form := regexp.MustCompile(`^go test \./(\S+) -run (\S+) -long -rewrite( # .+)?$`)
	played := regexp.MustCompile(`go test \./(\S+) -run '([^']+)' -long`)
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
			for _, f := range declared(t, "./"+m[1]) {
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

// TestFilesNamedInPagesExist: Go files between backticks exist, by their whole path or the end of it.
func TestFilesNamedInPagesExist(t *testing.T) {
	var files []string
	if err := walk(func(name string) error { files = append(files, "/"+name); return nil }); err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, text := range pages(t) {
		for _, m := range regexp.MustCompile("`([A-Za-z0-9_./-]+\\.go)`").FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "NAME") { // stands for any
				continue
			}
			n++
			if !slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, "/"+m[1]) }) {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
	}
	if n == 0 {
		t.Error("pages name no files")
	}
}

// TestCommandsInPagesPlaySomething: the packages of a "go test" command in a page have what its -run or -bench asks for. What it looks for
// as ^$, xx or xxx is meant to be nothing.
func TestCommandsInPagesPlaySomething(t *testing.T) {
	command := regexp.MustCompile("(cd \\S+ && )?go test ([^`]+)") // behind cd it is of another module
	asked := regexp.MustCompile(`-(run|bench)[ =]['"]?([A-Za-z0-9_|]+)`)
	kinds := map[string]*regexp.Regexp{"run": regexp.MustCompile(`^(Test|Fuzz|Example)`), "bench": regexp.MustCompile(`^Benchmark`)}
	n := 0
	for name, text := range pages(t) {
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			line := strings.Join(strings.Fields(strings.ReplaceAll(m[2], `\|`, "|")), " ")
			for _, a := range asked.FindAllStringSubmatch(line, -1) {
				if m[1] != "" || strings.Trim(a[2], "x") == "" {
					continue
				}
				n++
				want, kind := regexp.MustCompile(a[2]), kinds[a[1]]
				if !slices.ContainsFunc(declared(t, line), func(f string) bool { return kind.MatchString(f) && want.MatchString(f) }) {
					t.Errorf("%s: go test %s plays nothing for %s", name, line, a[0])
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("%d commands were found", n)
	}
}

// declared lists the functions in the test files of the folders that the arguments of "go test" name.
func declared(t *testing.T, args string) (names []string) {
	t.Helper()
	for dir := range strings.FieldsSeq(args) {
		if !strings.HasPrefix(dir, "./") {
			continue
		}
		pattern := filepath.Join(dir, "*_test.go")
		if below, ok := strings.CutSuffix(dir, "/..."); ok {
			pattern = filepath.Join(below, "*", "*_test.go")
		}
		files, err := filepath.Glob(pattern)
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
	}
	return names
}

// TestToolsArePinned: what CI runs is named by version or commit, and modules are checked against go.sum before anything is built.
func TestToolsArePinned(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	run, hosted := read(".ci/run"), read(".github/workflows/ci.yml")
	if verify, build := strings.Index(run, "\ngo mod verify"), strings.Index(run, "\ngo vet"); verify < 0 || verify > build {
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
	for _, text := range []string{run, read("Makefile"), strings.Join(regexp.MustCompile(`(?m)^.*go (run|install) .*$`).FindAllString(hosted, -1), "\n")} {
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
