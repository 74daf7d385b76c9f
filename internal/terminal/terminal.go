// Package terminal draws for people who read a terminal: tables, bars, a line or some lines that are drawn over. It
// owns how figures look there and which library draws them. It promises text that can be piped into a file: colours
// come only from an Ink that is on, and control sequences only from Line, ClearLine and Area; a Guarded writer lets no
// others through. It never knows what the figures mean.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// Is reports whether w is a terminal.
func Is(w io.Writer) bool {
	f, ok := plain(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Holds reports whether a terminal has room for that many columns and lines.
func Holds(f *os.File, columns, lines int) bool {
	width, height, err := term.GetSize(int(f.Fd()))
	return err == nil && width >= columns && height >= lines
}

// Size is the size of a terminal, a standard one's where it does not say, as in containers; 0 and 0 of what is none.
func Size(w io.Writer) (columns, lines int) {
	f, ok := plain(w).(*os.File)
	if !ok {
		return 0, 0
	}
	columns, lines, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	if columns == 0 || lines == 0 {
		return Columns, 24
	}
	return columns, lines
}

// Ink colours words. The zero value does not.
type Ink bool

// Colours is an Ink for w: on where it is a terminal that shows colours and whose user has not set NO_COLOR
// (no-color.org).
func Colours(w io.Writer, lookup func(string) (string, bool)) Ink {
	no, _ := lookup("NO_COLOR")
	kind, _ := lookup("TERM")
	return Ink(Is(w) && no == "" && kind != "dumb")
}

const (
	good     = "\x1b[32m"
	bad      = "\x1b[31m"
	middling = "\x1b[33m"
	strong   = "\x1b[1m"
	off      = "\x1b[0m"
)

// Good colours a word that says that something is well.
func (on Ink) Good(s string) string { return on.paint(good, s) }

// Bad colours a word that says that something is broken.
func (on Ink) Bad(s string) string { return on.paint(bad, s) }

// Middling colours a word that says that something is neither.
func (on Ink) Middling(s string) string { return on.paint(middling, s) }

// Strong makes a word bold.
func (on Ink) Strong(s string) string { return on.paint(strong, s) }

func (on Ink) paint(code, s string) string {
	if !on || s == "" {
		return s
	}
	return code + s + off
}

// Bar draws a share, 0 to 1.
func Bar(share float64) string {
	const width = 20
	n := int(share*width + 0.5)
	return strings.Repeat("█", n) + strings.Repeat("░", width-n) + fmt.Sprintf(" %4.1f %%", 100*share)
}

// Line draws over the line that the cursor is in.
func Line(w io.Writer, text string) {
	fmt.Fprint(plain(w), "\r\x1b[K")
	fmt.Fprint(w, text)
}

// ClearLine empties the line that the cursor is in.
func ClearLine(w io.Writer) { Line(w, "") }

// Area is some lines that are drawn over. The zero value has none yet.
type Area struct{ lines int }

// Draw puts a text, which ends with a line break, in the place of the one before.
func (a *Area) Draw(w io.Writer, text string) {
	a.Clear(w)
	if columns, lines := Size(w); columns > 0 {
		text = clip(text, columns, lines-1)
	}
	fmt.Fprint(w, text)
	a.lines = strings.Count(text, "\n")
}

// Clear empties the area.
func (a *Area) Clear(w io.Writer) {
	if a.lines > 0 {
		fmt.Fprintf(plain(w), "\x1b[%dA\x1b[J", a.lines)
	}
	a.lines = 0
}

// clip cuts a text to a terminal: a line that is broken there, or one that has left it, could not be drawn over.
func clip(s string, columns, lines int) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if lines--; lines < 0 {
			break
		}
		b.WriteString(text.Trim(strings.TrimSuffix(line, "\n"), columns) + "\n")
	}
	return b.String()
}

// Columns is the width that everything fits into: the width of a standard terminal.
const Columns = 80

// Wrap lays paragraphs, which empty lines part, out anew in 80 columns. Indented lines stay as they are.
func Wrap(s string) string {
	blocks := strings.Split(s, "\n\n")
	for i, block := range blocks {
		if !strings.HasPrefix(block, " ") && !strings.Contains(block, "\n ") {
			blocks[i] = strings.TrimRight(text.WrapSoft(strings.Join(strings.Fields(block), " "), Columns), " ")
		}
	}
	lines := strings.Split(strings.Join(blocks, "\n\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// leastMeaning is how many columns a meaning gets in the narrowest terminal.
const leastMeaning = 20

// Entry writes a name and what it means, wrapped beside it to 80 columns.
func Entry(w io.Writer, nameColumns int, name, meaning string) {
	EntryWithin(w, Columns, nameColumns, name, meaning)
}

// EntryWithin is Entry for a terminal of another width.
func EntryWithin(w io.Writer, columns, nameColumns int, name, meaning string) {
	for _, line := range strings.Split(text.WrapSoft(meaning, max(columns-nameColumns, leastMeaning)), "\n") {
		fmt.Fprintf(w, "%-*s%s\n", nameColumns, name, strings.TrimRight(line, " "))
		name = ""
	}
}
