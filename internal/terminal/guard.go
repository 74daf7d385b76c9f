package terminal

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Guarded is a writer to a terminal that shows texts of others: names, versions and errors of engines, ids of clients,
// answers of a router. They could write into the terminal's title or clipboard, or over what is there. A character that
// is no text is shown as U+FFFD; colours of an Ink pass.
type Guarded struct{ to io.Writer }

// Guard guards w if it is a terminal.
func Guard(w io.Writer) io.Writer {
	if Is(w) {
		return Guarded{w}
	}
	return w
}

// plain is the writer within a Guarded one, for control sequences.
func plain(w io.Writer) io.Writer {
	if g, ok := w.(Guarded); ok {
		return g.to
	}
	return w
}

// Write implements io.Writer.
func (g Guarded) Write(p []byte) (int, error) {
	if _, err := io.WriteString(g.to, harmless(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// harmless is a text without control characters but line breaks, tabs and colours, and without those that turn the
// direction of writing.
func harmless(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		if n := colour(s); n > 0 {
			b.WriteString(s[:n])
			s = s[n:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '\n' || r == '\t' || r == utf8.RuneError:
			b.WriteString(s[:n]) // a character may be cut between two writes
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// colour is the length of the sequence of an Ink that a text begins with; 0 for none.
func colour(s string) int {
	for _, code := range [...]string{good, bad, middling, strong, off} {
		if strings.HasPrefix(s, code) {
			return len(code)
		}
	}
	return 0
}
