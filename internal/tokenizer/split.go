package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// splitter is the length in bytes of the first piece of s, which is not empty: a match of the pattern at the start of
// s, or the text before the next match. It depends on nothing before s, and is above 0.
type splitter func(s string) int

// wordPattern is the family of patterns that began with tiktoken's cl100k_base (openai/tiktoken,
// tiktoken_ext/openai_public.py):
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
type wordPattern struct {
	digits int   // digits in a piece, at most
	word   class // what words are made of: letters, and marks in Qwen3.5
}

func (p wordPattern) split(s string) int {
	if n := contraction(s, true); n > 0 {
		return n
	}
	first, i := classAt(s, 0)
	if first&(letter|number|newline) == 0 {
		if c, _ := classAt(s, i); c&p.word != 0 {
			return run(s, i, p.word)
		}
	}
	switch {
	case first&p.word != 0:
		return run(s, i, p.word)
	case first&number != 0:
		return digits(s, p.digits)
	}
	if n := symbols(s, space|p.word|number, "\r\n"); n > 0 {
		return n
	}
	return blank(s, true)
}

// casePattern is the family of patterns that began with tiktoken's o200k_base, which also cuts words where the case
// changes:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
type casePattern struct {
	digits       int
	contractions bool // none in Mistral's tekken
}

const (
	head = upper | caseless | mark
	tail = lower | caseless | mark
)

func (p casePattern) split(s string) int {
	first, i := classAt(s, 0)
	end := -1
	prefixed := first&(letter|number|newline) == 0
	if prefixed {
		end = headTail(s, i)
	}
	if end < 0 {
		end = headTail(s, 0)
	}
	if end < 0 && prefixed {
		end = headOnly(s, i)
	}
	if end < 0 {
		end = headOnly(s, 0)
	}
	if end >= 0 {
		if p.contractions {
			end += contraction(s[end:], true)
		}
		return end
	}
	if first&number != 0 {
		return digits(s, p.digits)
	}
	if n := symbols(s, space|letter|number, "\r\n/"); n > 0 {
		return n
	}
	return blank(s, true)
}

// headTail matches [head]*[tail]+ at i and returns its end, or -1. Without a lower-case letter after the head, it
// backtracks to the last character of both classes.
func headTail(s string, i int) int {
	last := -1
	for i < len(s) {
		c, next := classAt(s, i)
		if c&head == 0 {
			break
		}
		if c&tail != 0 {
			last = next
		}
		i = next
	}
	if end := run(s, i, tail); end > i {
		return end
	}
	return last
}

// headOnly matches [head]+[tail]* at i and returns its end, or -1.
func headOnly(s string, i int) int {
	end := run(s, i, head)
	if end == i {
		return -1
	}
	return run(s, end, tail)
}

// gpt2 is the pattern of GPT-2, and of a ByteLevel with use_regex:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2(s string) int {
	if n := contraction(s, false); n > 0 {
		return n
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	switch c, next := classAt(s, i); {
	case next == i || c&space != 0:
		return blank(s, false)
	case c&letter != 0:
		return run(s, next, letter)
	case c&number != 0:
		return run(s, next, number)
	default:
		return runNot(s, next, space|letter|number)
	}
}

// contraction is the length of one of 's 't 're 've 'm 'll 'd at the start of s, or 0. With anyCase, s also matches the
// long s, which folds to it.
func contraction(s string, anyCase bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	letter := func(i int) byte {
		if i >= len(s) {
			return 0
		}
		c := s[i]
		if anyCase && 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}
	switch letter(1) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if letter(2) == 'e' {
			return 3
		}
	case 'l':
		if letter(2) == 'l' {
			return 3
		}
	}
	if anyCase && strings.HasPrefix(s[1:], "ſ") {
		return 1 + len("ſ")
	}
	return 0
}

// digits is \p{N}{1,most}; s begins with a number.
func digits(s string, most int) int {
	i := 0
	for range most {
		c, next := classAt(s, i)
		if c&number == 0 {
			break
		}
		i = next
	}
	return i
}

// symbols is " ?[^avoid]+[after]*", or 0.
func symbols(s string, avoid class, after string) int {
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	end := runNot(s, i, avoid)
	if end == i {
		return 0
	}
	for end < len(s) && strings.IndexByte(after, s[end]) >= 0 {
		end++
	}
	return end
}

// blank is "\s*[\r\n]+|\s+(?!\S)|\s+", the first only if lines is true: up to the last line break of the white space at
// the start of s, else all of it except the last character before other text. It is one character if s begins with no
// white space: an unmatched character is a piece.
func blank(s string, lines bool) int {
	end, last, lastLine := 0, 0, 0
	for end < len(s) {
		c, next := classAt(s, end)
		if c&space == 0 {
			break
		}
		if c&newline != 0 {
			lastLine = next
		}
		last, end = end, next
	}
	switch {
	case lines && lastLine > 0:
		return lastLine
	case end == len(s) || last == 0 && end > 0:
		return end
	case last > 0:
		return last
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}
