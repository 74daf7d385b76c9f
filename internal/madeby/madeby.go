// Package madeby keeps figures in pages equal to what their commands make.
//
// A page marks what a test makes with the command that writes it anew:
//
//	<!-- made by: go test ./sim -run TestPages/times -long -rewrite -->
//	| a table |
//	<!-- end -->
//
// What follows a # in the mark tells blocks of one command apart. The test makes the text and hands it to Block. It
// fails when the page says something else, or rewrites the page. The package knows the marks and nothing of what is
// between them.
package madeby

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const end = "<!-- end -->\n"

var begin = regexp.MustCompile(`(?m)^<!-- made by: (.+) -->\n`)

// block is what one command makes.
type block struct {
	command  string
	from, to int // of what is between the marks
}

// Commands are the commands of a page's blocks, in order. A block that has no end or is twice there is an error.
func Commands(page string) ([]string, error) {
	all, err := blocks(page)
	var out []string
	for _, b := range all {
		out = append(out, b.command)
	}
	return out, err
}

func blocks(page string) ([]block, error) {
	var out []block
	seen := map[string]bool{}
	for _, m := range begin.FindAllStringSubmatchIndex(page, -1) {
		b := block{command: page[m[2]:m[3]], from: m[1]}
		n := strings.Index(page[b.from:], end)
		if next := begin.FindStringIndex(page[b.from:]); n < 0 || next != nil && next[0] < n {
			return out, fmt.Errorf("what %q makes has no end: %q is missing", b.command, strings.TrimSpace(end))
		}
		if seen[b.command] {
			return out, fmt.Errorf("%q makes two blocks", b.command)
		}
		seen[b.command] = true
		b.to = b.from + n
		out = append(out, b)
	}
	return out, nil
}

// Block compares the block of a command in the page of a file with a text, which ends with a line. With rewrite it
// writes the text there.
func Block(t testing.TB, file, command, text string, rewrite bool) {
	t.Helper()
	page, b := find(t, file, command)
	have := page[b.from:b.to]
	switch {
	case have == text:
	case rewrite:
		if err := os.WriteFile(file, []byte(page[:b.from]+text+page[b.to:]), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what its command makes; if the change is meant, run %s\n%s",
			file, command, difference(have, text))
	}
}

func find(t testing.TB, file, command string) (string, block) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all, err := blocks(string(raw))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, b := range all {
		if b.command == command {
			return string(raw), b
		}
	}
	t.Fatalf("%s has no block that is made by: %s", file, command)
	return "", block{}
}

// difference shows the lines in which two texts differ.
func difference(have, want string) string {
	var out strings.Builder
	a, b := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			fmt.Fprintf(&out, "it has  %s\nmade is %s\n", x, y)
		}
	}
	return out.String()
}
