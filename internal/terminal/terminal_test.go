package terminal_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/terminal"
)

// TestTables: each style is drawn as its comment says, and figures stand to the right where they are asked to.
func TestTables(t *testing.T) {
	for style, want := range map[terminal.Style]string{
		terminal.Capitals: "┌──────┬────┐\n│ NAME │ MS │\n├──────┼────┤\n│ a    │  7 │\n├──────┼────┤\n" +
			"│ b    │ 12 │\n└──────┴────┘",
		terminal.Framed: "┌──────┬────┐\n│ name │ ms │\n├──────┼────┤\n│ a    │  7 │\n├──────┼────┤\n" +
			"│ b    │ 12 │\n└──────┴────┘",
		terminal.Wide: "┌──────────┐\n│ name  ms │\n├──────────┤\n│ a      7 │\n├──────────┤\n│ b     12 │\n" +
			"└──────────┘",
		terminal.Bare: " name  ms \n a      7 \n b     12 ",
	} {
		table := terminal.NewTable(style, "name", "ms")
		table.RightFrom(2)
		table.Row("a", "7")
		if style != terminal.Bare {
			table.Separator()
		}
		table.Row("b", "12")
		if got := table.String(); got != want {
			t.Errorf("style %d:\n%s\nwant\n%s", style, got, want)
		}
	}
}

// TestArea: a text takes the place of the one before, and the place is left empty.
func TestArea(t *testing.T) {
	var out bytes.Buffer
	var a terminal.Area
	a.Clear(&out)
	a.Draw(&out, "one\ntwo\n")
	a.Draw(&out, "three\n")
	a.Clear(&out)
	a.Clear(&out)
	if got, want := out.String(), "one\ntwo\n\x1b[2A\x1b[Jthree\n\x1b[1A\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if terminal.Is(&out) {
		t.Error("a buffer is taken for a terminal")
	}
}

// TestSizeUnknown: a terminal that does not say how large it is, as within docker exec, shows something.
func TestSizeUnknown(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this machine has no pseudo-terminals: ", err)
	}
	defer f.Close()
	if columns, lines := terminal.Size(f); columns != terminal.Columns || lines != 24 {
		t.Errorf("%d columns, %d lines", columns, lines)
	}
}

func TestBar(t *testing.T) {
	for share, want := range map[float64]string{
		0: strings.Repeat("░", 20) + "  0.0 %", 0.5: strings.Repeat("█", 10) + strings.Repeat("░", 10) + " 50.0 %",
		1: strings.Repeat("█", 20) + " 100.0 %",
	} {
		if got := terminal.Bar(share); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
}

func TestEntry(t *testing.T) {
	var b strings.Builder
	terminal.Entry(&b, 40, "name", "a meaning that is longer than forty columns are wide")
	want := "name                                    a meaning that is longer than forty\n" +
		"                                        columns are wide\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// TestWrap: paragraphs are laid out anew, lists stay.
func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 20)
	for in, want := range map[string]string{
		"":                   "",
		"one\ntwo\n\nthree":  "one two\n\nthree",
		long:                 strings.TrimRight(strings.Repeat("word ", 16), " ") + "\nword word word word",
		"  a list\n  of two": "  a list\n  of two",
		"words:\n  a list":   "words:\n  a list",
	} {
		if got := terminal.Wrap(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
