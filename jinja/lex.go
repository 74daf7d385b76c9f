package jinja

import (
	"strings"
	"unicode"
)

// kind is the kind of a token.
type kind uint8

const (
	tokEOF kind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

// token is a part of a template. The text of a string is without quotes and escapes.
type token struct {
	kind kind
	text string
	line int
}

// lexer splits a template into tokens, by the rules of jinja2.lexer with trim_blocks and lstrip_blocks.
type lexer struct {
	s        string
	i        int
	starting bool // the previous part ended with a line break, or there is none
	line     int
	lineAt   int // position up to which line has counted
	out      []token
}

// lex returns the tokens of a template.
func lex(source string) []token {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	source = strings.TrimSuffix(source, "\n") // keep_trailing_newline is off
	l := &lexer{s: source, starting: true, line: 1}
	for l.i < len(l.s) {
		l.root()
	}
	l.emit(tokEOF, "")
	return l.out
}

func (l *lexer) emit(k kind, text string) {
	l.line += strings.Count(l.s[l.lineAt:l.i], "\n")
	l.lineAt = l.i
	l.out = append(l.out, token{kind: k, text: text, line: l.line})
}

// root reads the text up to the next tag, and that tag.
func (l *lexer) root() {
	at := l.i
	for {
		n := strings.IndexByte(l.s[at:], '{')
		if n < 0 || at+n+1 >= len(l.s) {
			l.data(l.s[l.i:])
			l.i = len(l.s)
			return
		}
		at += n
		if strings.IndexByte("{%#", l.s[at+1]) >= 0 {
			break
		}
		at++
	}
	text := l.s[l.i:at]
	tag := l.s[at+1]
	l.i = at + 2
	sign := l.sign()
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign != '+' && tag != '{':
		text = l.leftStripped(text)
	}
	switch tag {
	case '#':
		l.data(text)
		l.comment()
	case '{':
		l.data(text)
		l.emit(tokVarBegin, "")
		l.inside('}', tokVarEnd)
	case '%':
		l.data(text)
		if l.raw() {
			return
		}
		l.emit(tokBlockBegin, "")
		l.inside('%', tokBlockEnd)
	}
}

// sign reads a sign of white space control.
func (l *lexer) sign() byte {
	if l.i < len(l.s) && (l.s[l.i] == '-' || l.s[l.i] == '+') {
		l.i++
		return l.s[l.i-1]
	}
	return 0
}

// leftStripped removes the white space between the beginning of a line and a block.
func (l *lexer) leftStripped(text string) string {
	at := strings.LastIndexByte(text, '\n') + 1
	if (at > 0 || l.starting) && at < len(text) && strings.TrimFunc(text[at:], isSpace) == "" {
		return text[:at]
	}
	return text
}

func (l *lexer) data(text string) {
	if text != "" {
		l.emit(tokData, text)
	}
}

// closed reads the end of a tag, after its sign. After a - it skips white space, after none one line break of a block.
func (l *lexer) closed(sign byte, trim bool) {
	l.i += 2
	start := l.i
	switch {
	case sign == '-':
		l.i = len(l.s) - len(strings.TrimLeftFunc(l.s[l.i:], isSpace))
	case sign != '+' && trim && strings.HasPrefix(l.s[l.i:], "\n"):
		l.i++
	}
	l.starting = l.i > start && l.s[l.i-1] == '\n'
}

func (l *lexer) comment() {
	n := strings.Index(l.s[l.i:], "#}")
	if n < 0 {
		fail("line %d: a comment does not end", l.line)
	}
	l.i += n
	sign := byte(0)
	if n > 0 && (l.s[l.i-1] == '-' || l.s[l.i-1] == '+') {
		sign = l.s[l.i-1]
	}
	l.closed(sign, true)
}

// raw reads a raw block after its {%, and reports whether there is one.
func (l *lexer) raw() bool {
	rest, ok := strings.CutPrefix(strings.TrimLeftFunc(l.s[l.i:], isSpace), "raw")
	if !ok {
		return false
	}
	rest = strings.TrimLeftFunc(rest, isSpace)
	sign := byte(0)
	if strings.HasPrefix(rest, "-%}") {
		sign, rest = '-', rest[1:]
	}
	if !strings.HasPrefix(rest, "%}") {
		return false
	}
	l.i = len(l.s) - len(rest)
	l.closed(sign, false)
	for at := l.i; ; at += 2 {
		n := strings.Index(l.s[at:], "{%")
		if n < 0 {
			fail("line %d: a raw block does not end", l.line)
		}
		at += n
		text := l.s[l.i:at]
		tag := l.s[at+2:]
		begin := byte(0)
		if tag != "" && (tag[0] == '-' || tag[0] == '+') {
			begin, tag = tag[0], tag[1:]
		}
		tag, ok = strings.CutPrefix(strings.TrimLeftFunc(tag, isSpace), "endraw")
		if !ok {
			continue
		}
		tag = strings.TrimLeftFunc(tag, isSpace)
		end := byte(0)
		if tag != "" && (tag[0] == '-' || tag[0] == '+') {
			end, tag = tag[0], tag[1:]
		}
		if !strings.HasPrefix(tag, "%}") {
			continue
		}
		if begin == '-' {
			text = strings.TrimRightFunc(text, isSpace)
		} else if begin == 0 {
			text = l.leftStripped(text)
		}
		l.data(text)
		l.i = len(l.s) - len(tag)
		l.closed(end, true)
		return true
	}
}

// inside reads the tokens of a tag up to its end, which begins with end.
func (l *lexer) inside(end byte, k kind) {
	var open []byte
	for l.i < len(l.s) {
		c := l.s[l.i]
		if unicode.IsSpace(rune(c)) && c < 0x80 {
			l.i++
			continue
		}
		if len(open) == 0 {
			sign, at := byte(0), l.i
			if (c == '-' || c == '+' && end == '%') && at+1 < len(l.s) {
				sign, at = c, at+1
			}
			if at+1 < len(l.s) && l.s[at] == end && l.s[at+1] == '}' {
				l.i = at
				l.closed(sign, end == '%')
				l.emit(k, "")
				return
			}
		}
		switch {
		case isNameByte(c) && (c < '0' || c > '9'):
			l.name()
		case c >= '0' && c <= '9':
			l.number()
		case c == '\'' || c == '"':
			l.quoted()
		default:
			open = l.operator(open)
		}
	}
	fail("line %d: a tag does not end", l.line)
}

func isNameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func (l *lexer) name() {
	start := l.i
	for l.i < len(l.s) && isNameByte(l.s[l.i]) {
		l.i++
	}
	l.emit(tokName, l.s[start:l.i])
}

func (l *lexer) number() {
	start := l.i
	digits := func() {
		for l.i < len(l.s) && (l.s[l.i] >= '0' && l.s[l.i] <= '9' || l.s[l.i] == '_') {
			l.i++
		}
	}
	if l.s[l.i] == '0' && l.i+1 < len(l.s) && strings.IndexByte("bBoOxX", l.s[l.i+1]) >= 0 {
		l.i += 2
		for l.i < len(l.s) && isNameByte(l.s[l.i]) {
			l.i++
		}
		l.emit(tokInt, l.s[start:l.i])
		return
	}
	digits()
	k := tokInt
	if l.i+1 < len(l.s) && l.s[l.i] == '.' && l.s[l.i+1] >= '0' && l.s[l.i+1] <= '9' {
		k = tokFloat
		l.i++
		digits()
	}
	if l.i < len(l.s) && (l.s[l.i] == 'e' || l.s[l.i] == 'E') {
		at := l.i + 1
		if at < len(l.s) && (l.s[at] == '-' || l.s[at] == '+') {
			at++
		}
		if at < len(l.s) && l.s[at] >= '0' && l.s[at] <= '9' {
			k, l.i = tokFloat, at
			digits()
		}
	}
	l.emit(k, strings.ReplaceAll(l.s[start:l.i], "_", ""))
}

func (l *lexer) quoted() {
	for i := l.i + 1; i < len(l.s); i++ {
		switch l.s[i] {
		case '\\':
			i++
		case l.s[l.i]:
			text := unescape(l.s[l.i+1 : i])
			l.i = i + 1
			l.emit(tokString, text)
			return
		}
	}
	fail("line %d: a text in quotes does not end", l.line)
}

// operator reads an operator, and updates the open brackets.
func (l *lexer) operator(open []byte) []byte {
	for _, op := range []string{"//", "**", "==", "!=", ">=", "<="} {
		if strings.HasPrefix(l.s[l.i:], op) {
			l.i += 2
			l.emit(tokOp, op)
			return open
		}
	}
	c := l.s[l.i]
	l.i++
	switch c {
	case '(', '[', '{':
		open = append(open, map[byte]byte{'(': ')', '[': ']', '{': '}'}[c])
		if len(open) > mostDepth {
			fail("line %d: brackets are nested too deep", l.line)
		}
	case ')', ']', '}':
		if len(open) == 0 || open[len(open)-1] != c {
			fail("line %d: an unexpected %q", l.line, c)
		}
		open = open[:len(open)-1]
	case '+', '-', '/', '*', '%', '~', '>', '<', '=', '.', ':', '|', ',', ';':
	default:
		fail("line %d: an unexpected %q", l.line, c)
	}
	l.emit(tokOp, string(c))
	return open
}
