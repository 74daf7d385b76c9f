package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a character's properties in the patterns, as bits.
type class uint16

const (
	upper    class = 1 << iota // \p{Lu} and \p{Lt}
	lower                      // \p{Ll}
	caseless                   // \p{Lm} and \p{Lo}
	mark                       // \p{M}
	number                     // \p{N}
	space                      // \s, \r and \n among them
	newline                    // \r and \n
	symbolic                   // \p{P} and \p{S}

	letter = upper | lower | caseless
)

// ascii has the classes of the characters below 128, which most text consists of.
var ascii = func() (t [utf8.RuneSelf]class) {
	for r := range t {
		t[r] = classOf(rune(r))
	}
	return t
}()

// basic has the classes of the characters below 0x10000, computed once: 128 KiB and a few milliseconds, for a fiftieth
// of the time per character.
var basic = sync.OnceValue(func() *[0x10000]class {
	var t [0x10000]class
	for r := range t {
		t[r] = classOf(rune(r))
	}
	return &t
})

// classOf looks a character up in the tables of the Unicode standard.
func classOf(r rune) class {
	switch {
	case r == '\r' || r == '\n':
		return space | newline
	case unicode.IsSpace(r):
		return space
	case unicode.Is(unicode.Ll, r):
		return lower
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper
	case unicode.IsLetter(r):
		return caseless
	case unicode.Is(unicode.M, r):
		return mark
	case unicode.Is(unicode.N, r):
		return number
	case unicode.In(r, unicode.P, unicode.S):
		return symbolic
	}
	return 0
}

// classAt is the class of the character at i, and the start of the next one. At the end of s they are 0 and i. Invalid
// UTF-8 has no class.
func classAt(s string, i int) (class, int) {
	if i >= len(s) {
		return 0, i
	}
	if c := s[i]; c < utf8.RuneSelf {
		return ascii[c], i + 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	if r == utf8.RuneError && n == 1 {
		return 0, i + 1
	}
	if r < 0x10000 {
		return basic()[r], i + n
	}
	return classOf(r), i + n
}

// run is the end of the characters with a class in want, from i on.
func run(s string, i int, want class) int {
	for i < len(s) {
		c, next := classAt(s, i)
		if c&want == 0 {
			break
		}
		i = next
	}
	return i
}

// runNot is the end of the characters without a class in avoid, from i on.
func runNot(s string, i int, avoid class) int {
	for i < len(s) {
		c, next := classAt(s, i)
		if c&avoid != 0 {
			break
		}
		i = next
	}
	return i
}
