package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

func caseMethod(s, name string) func(*frame, *args) any {
	to := func(fn func(string) string) func(*frame, *args) any {
		return func(*frame, *args) any { return fn(s) }
	}
	switch name {
	case "upper":
		return to(upper)
	case "lower":
		return to(lower)
	case "title":
		return to(func(s string) string {
			return cased(s, func(before rune) bool { return !unicode.IsLetter(before) })
		})
	case "capitalize":
		return to(capitalized)
	case "swapcase":
		return to(func(s string) string {
			return strings.Map(func(r rune) rune {
				if unicode.IsUpper(r) {
					return unicode.ToLower(r)
				}
				return unicode.ToUpper(r)
			}, s)
		})
	}
	return nil
}

// upper and lower handle the two common characters whose other case has several characters.
func upper(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "ß", "SS")) }

func lower(s string) string { return strings.ToLower(strings.ReplaceAll(s, "İ", "i̇")) }

// cased capitalises each word; begins reports, by the character before, whether a word begins.
func cased(s string, begins func(before rune) bool) string {
	var out strings.Builder
	before := ' '
	for _, r := range s {
		if begins(before) {
			out.WriteRune(unicode.ToTitle(r))
		} else {
			out.WriteRune(unicode.ToLower(r))
		}
		before = r
	}
	return out.String()
}

func capitalized(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToTitle(r)) + lower(s[n:])
}

func askMethod(s, name string) func(*frame, *args) any {
	all := func(is func(rune) bool) func(*frame, *args) any {
		return func(*frame, *args) any {
			return s != "" && strings.IndexFunc(s, func(r rune) bool { return !is(r) }) < 0
		}
	}
	switch name {
	case "isdigit", "isdecimal":
		return all(func(r rune) bool { return unicode.Is(unicode.Nd, r) })
	case "isnumeric":
		return all(func(r rune) bool { return unicode.Is(unicode.N, r) })
	case "isalpha":
		return all(unicode.IsLetter)
	case "isalnum":
		return all(func(r rune) bool { return unicode.IsLetter(r) || unicode.Is(unicode.N, r) })
	case "isspace":
		return all(isSpace)
	case "isascii":
		return func(*frame, *args) any { return strings.IndexFunc(s, func(r rune) bool { return r > 127 }) < 0 }
	case "isupper":
		return func(*frame, *args) any { return s == upper(s) && s != lower(s) }
	case "islower":
		return func(*frame, *args) any { return s == lower(s) && s != upper(s) }
	}
	return nil
}

func shapeMethod(s, name string) func(*frame, *args) any {
	switch name {
	case "zfill":
		return func(f *frame, a *args) any {
			n := a.number("width", 0) - utf8.RuneCountInString(s)
			sign := ""
			if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
				sign = s[:1]
			}
			return sign + times(f, "0", n) + s[len(sign):]
		}
	case "ljust", "rjust", "center":
		return func(f *frame, a *args) any {
			width := a.need("width")
			n, ok := whole(width)
			fill, isText := a.or("fillchar", " ").(string)
			if !ok || !isText || utf8.RuneCountInString(fill) != 1 {
				fail("%s needs a width, and one character to fill with", name)
			}
			n -= utf8.RuneCountInString(s)
			switch name {
			case "ljust":
				return s + times(f, fill, n)
			case "rjust":
				return times(f, fill, n) + s
			}
			return centered(f, s, fill, n, n+utf8.RuneCountInString(s))
		}
	case "format":
		return func(f *frame, a *args) any { return formatted(f, s, a) }
	}
	return nil
}

// centered puts n characters around s like str.center: of an odd number one more is on the left if the width is odd.
func centered(f *frame, s, fill string, n, width int) string {
	if n <= 0 {
		return s
	}
	left := n/2 + n&width&1
	return times(f, fill, left) + s + times(f, fill, n-left)
}
