package jinja

import (
	"strconv"
	"strings"
	"unicode"
)

// isSpace is white space to Python's str methods and to its \s: Unicode's, and the four separators of ASCII.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F }

// unescape decodes a quoted text by Python's rules (the unicode-escape codec): unknown escapes are kept.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	simple := map[byte]string{
		'\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t",
		'v': "\v", '\n': "",
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if text, ok := simple[c]; ok {
			out.WriteString(text)
			continue
		}
		if n := digits[c]; n > 0 {
			if i+n >= len(s) {
				fail("an escape \\%c is cut short", c)
			}
			r, err := strconv.ParseUint(s[i+1:i+1+n], 16, 32)
			if err != nil || r > unicode.MaxRune || r >= 0xD800 && r < 0xE000 {
				fail("the escape \\%s names no character", s[i:i+1+n])
			}
			out.WriteRune(rune(r))
			i += n
			continue
		}
		if c >= '0' && c <= '7' {
			end := i + 1
			for end < len(s) && end < i+3 && s[end] >= '0' && s[end] <= '7' {
				end++
			}
			r, _ := strconv.ParseUint(s[i:end], 8, 16)
			out.WriteRune(rune(r))
			i = end - 1
			continue
		}
		if c == 'N' {
			fail("escapes by name are not supported")
		}
		out.WriteByte('\\')
		out.WriteByte(c)
	}
	return out.String()
}

// isWord is \w of Python's re.
func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }
