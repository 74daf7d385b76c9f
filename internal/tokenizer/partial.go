package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// numbers is \p{N}{1,most}, and \p{N}+ where most is 0.
func numbers(most int) splitter {
	return func(s string) int {
		if c, _ := classAt(s, 0); c&number == 0 {
			return runNot(s, 0, number)
		}
		if most == 0 {
			return run(s, 0, number)
		}
		return digits(s, most)
	}
}

// hanAndKana is [一-龥぀-ゟ゠-ヿ]+, of DeepSeek.
func hanAndKana(s string) int {
	is := func(i int) (bool, int) {
		r, n := utf8.DecodeRuneInString(s[i:])
		return r >= '一' && r <= '龥' || r >= '\u3040' && r <= '\u30ff', i + n
	}
	in, i := is(0)
	for i < len(s) {
		now, next := is(i)
		if now != in {
			break
		}
		i = next
	}
	return i
}

// deepSeek is the word pattern of DeepSeek V3 and R1:
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// It does not match every text: text between two matches is a piece.
func deepSeek(s string) int {
	i := 0
	for i < len(s) {
		if n := deepSeekMatch(s[i:]); n > 0 {
			if i == 0 {
				return n
			}
			return i
		}
		_, i = classAt(s, i)
	}
	return i
}

// deepSeekMatch is the length of the match at the start of s, or 0.
func deepSeekMatch(s string) int {
	if c := s[0]; c < utf8.RuneSelf && (unicode.IsPunct(rune(c)) || unicode.IsSymbol(rune(c))) {
		end := 1
		for end < len(s) && (s[end]|0x20) >= 'a' && (s[end]|0x20) <= 'z' {
			end++
		}
		if end > 1 {
			return end
		}
	}
	first, i := classAt(s, 0)
	if first&(newline|letter|symbolic) == 0 {
		if c, _ := classAt(s, i); c&(letter|mark) != 0 {
			return run(s, i, letter|mark)
		}
	}
	if first&(letter|mark) != 0 {
		return run(s, i, letter|mark)
	}
	start := 0
	if s[0] == ' ' {
		start = 1
	}
	if end := run(s, start, symbolic); end > start {
		for end < len(s) && (s[end] == '\r' || s[end] == '\n') {
			end++
		}
		return end
	}
	if first&space != 0 {
		return blank(s, true)
	}
	return 0
}
