package warmpath_test

import (
	"go/scanner"
	"go/token"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	columns = 120 // that a line of Go has at most
	tab     = 4   // columns that a tab counts
)

// TestColumns: no line of Go is too long, but for what no line break shortens.
func TestColumns(t *testing.T) {
	err := walk(func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		for _, n := range longLines(text) {
			t.Errorf("%s:%d: over %d columns; break it at the shallowest comma, operator or brace that serves",
				name, n, columns)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// longLines has the numbers of the lines that are too long. These do not count: a literal without a place to split it,
// where even a line of its own could not hold it; a line that begins inside a raw string; the text of a comment that
// is set by hand; and what a comment tells a tool.
func longLines(text []byte) (long []int) {
	lines := strings.Split(string(text), "\n")
	over := map[int]int{} // columns of each long line
	for i, l := range lines {
		if w := width(l); w > columns {
			over[i+1] = w
		}
	}
	if len(over) == 0 {
		return nil
	}
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for pos, tok, lit := s.Scan(); tok != token.EOF; pos, tok, lit = s.Scan() {
		if tok != token.STRING && tok != token.COMMENT {
			continue
		}
		for i, part := range strings.Split(lit, "\n") {
			n := file.Line(pos) + i
			if over[n] == 0 {
				continue
			}
			line := lines[n-1]
			room := columns - width(line[:len(line)-len(strings.TrimLeft(line, "\t"))])
			switch {
			case i > 0 || tok == token.COMMENT && (strings.HasPrefix(part, "//\t") || strings.HasPrefix(part, "//  ")):
				over[n] = 0
			case tok == token.COMMENT && !strings.HasPrefix(part, "// "):
				over[n] -= width(part)
			default:
				// A line of its own would begin a tab deeper and end in a bracket and a comma.
				if w := solid(part); w+tab+2 > room {
					over[n] -= w
				}
			}
		}
	}
	for n, w := range over {
		if w > columns {
			long = append(long, n)
		}
	}
	slices.Sort(long)
	return long
}

// solid is the width of the longest part of a literal or comment that has no place to split it: strings are split after
// a space, a comma or an escaped line break, raw ones nowhere.
func solid(lit string) (widest int) {
	if lit[0] == '`' {
		return width(lit)
	}
	if lit[0] == '"' {
		lit = strings.NewReplacer(`\n`, `\n `, ",", ", ").Replace(lit)
	}
	for word := range strings.SplitSeq(lit, " ") {
		widest = max(widest, width(word))
	}
	return widest
}

func width(text string) (n int) {
	for _, r := range text {
		if r == '\t' {
			n += tab - 1
		}
		n++
	}
	return n
}

func TestLongLines(t *testing.T) {
	word := strings.Repeat("x", 115)
	words := strings.Repeat("words ", 30)
	for name, row := range map[string]struct {
		text string
		long bool
	}{
		"120 columns":             {strings.Repeat("x", 120), false},
		"121 columns":             {strings.Repeat("x", 121), true},
		"120 characters":          {strings.Repeat("é", 120), false},
		"tabs":                    {"\t\t\t" + strings.Repeat("x", 109), true},
		"arguments":               {"f(" + strings.Repeat("a, ", 40) + "b)", true},
		"a string of words":       {`f("` + words + `")`, true},
		"a string without a gap":  {`f("` + word + `")`, false},
		"with commas":             {`f("` + strings.Repeat("word,", 30) + `")`, true},
		"with line breaks":        {`f("` + strings.Repeat(`word\n`, 30) + `")`, true},
		"a raw string":            {"f(`" + words + "`)", false},
		"and much more":           {"f(`" + words + "`, " + strings.Repeat("a, ", 40) + "b)", true},
		"one that a line holds":   {"f(a, b, `" + strings.Repeat("x", 100) + "`, some, more, arguments)", true},
		"two that lines hold":     {"f(`" + strings.Repeat("x", 80) + "`, `" + strings.Repeat("x", 80) + "`)", true},
		"inside a raw string":     {"f(`\n" + words + "\n`)", false},
		"where one begins":        {"f(" + strings.Repeat("a, ", 40) + "`\n`)", true},
		"a comment":               {"// " + words, true},
		"an address in a comment": {"// https://" + word, false},
		"a table in a comment":    {"//\t" + words, false},
		"a list in a comment":     {"//   - " + words, false},
		"a directive":             {"x := 1 //nolint:all // " + words, false},
		"much before a directive": {"f(" + strings.Repeat("a, ", 40) + "b) //nolint:all", true},
	} {
		if got := longLines([]byte(row.text)); (len(got) > 0) != row.long {
			t.Errorf("%s: lines %v are too long, want any: %t", name, got, row.long)
		}
	}
}
