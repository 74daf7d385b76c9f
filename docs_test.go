package warmpath_test

import (
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
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
		"docs/decisions/0015-least-ttft.md", // until the rules that it is about are decided anew
	}
	decisions := 0
	for name, text := range pages(t) {
		dir := path.Dir(name)
		if name != "README.md" && dir != "docs" && dir != "docs/decisions" || slices.Contains(except, name) {
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
