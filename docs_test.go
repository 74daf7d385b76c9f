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

// TestGlossary holds the glossary to its form: terms in order, each with a list of words to avoid.
func TestGlossary(t *testing.T) {
	term := regexp.MustCompile(`(?m)^\*\*(.+)\.\*\* `)
	text := pages(t)["docs/glossary.md"]
	found := term.FindAllStringSubmatchIndex(text, -1)
	if len(found) == 0 {
		t.Fatal("docs/glossary.md has no terms")
	}
	last := ""
	for i, at := range found {
		name := text[at[2]:at[3]]
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		if !strings.Contains(text[at[0]:end], "\n*Avoid:* ") {
			t.Errorf("%s says no words to avoid", name)
		}
		if strings.ToLower(name) < last {
			t.Errorf("%s is not in order", name)
		}
		last = strings.ToLower(name)
	}
}
