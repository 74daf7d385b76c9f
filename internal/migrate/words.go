package migrate

import (
	"errors"
	"fmt"
	"strings"
)

// word is one word of a command line and the line that it stands on; 0 where there are no lines.
type word struct {
	text string
	line int
}

// split cuts a text into words as a shell does: quotes and backslashes, comments, lines that go on. Variables and
// substitutions are left as they are written. The error names the line of a quote that is not closed.
func split(file, text string) ([]word, error) {
	s := splitter{line: 1}
	var quote rune // the open one, 0 for none
	opened := 0
	escaped, comment := false, false
	for _, r := range text {
		switch {
		case comment:
			comment = r != '\n'
		case escaped:
			escaped = false
			if r != '\n' {
				if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
					s.add('\\')
				}
				s.add(r)
			}
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			s.add(r)
		case r == '\'' || r == '"':
			quote, opened = r, s.line
			s.begin()
		case r == '#' && !s.open:
			comment = true
		case r == ' ' || r == '\t' || r == '\r' || r == '\n':
			s.end()
		default:
			s.add(r)
		}
		if r == '\n' {
			s.line++
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("%s:%d: the quote %c is not closed", file, opened, quote)
	}
	if escaped {
		return nil, fmt.Errorf("%s:%d: %w", file, s.line, errBackslash)
	}
	s.end()
	return s.words, nil
}

var errBackslash = errors.New("it ends in a backslash")

type splitter struct {
	words []word
	text  strings.Builder
	open  bool // a word is being read
	from  int  // its line
	line  int
}

func (s *splitter) begin() {
	if !s.open {
		s.open, s.from = true, s.line
	}
}

func (s *splitter) add(r rune) {
	s.begin()
	s.text.WriteRune(r)
}

func (s *splitter) end() {
	if s.open {
		s.words = append(s.words, word{s.text.String(), s.from})
		s.text.Reset()
		s.open = false
	}
}
