package jinja

import (
	"strconv"
	"strings"
)

// formatted is str.format with {}, {0} and {name}. Format specifications, attributes and conversions are not supported.
func formatted(f *frame, s string, a *args) string {
	var out strings.Builder
	next := 0
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "{{"), strings.HasPrefix(s[i:], "}}"):
			out.WriteByte(s[i])
			i++
		case s[i] == '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				fail("format: a { is not closed")
			}
			field := s[i+1 : i+end]
			if strings.ContainsAny(field, ":.!{[") {
				fail("format: {%s} is not supported", field)
			}
			if field == "" {
				field = strconv.Itoa(next)
				next++
			}
			out.WriteString(f.r.str(a.field(field)))
			i += end
		case s[i] == '}':
			fail("format: a } that was not opened")
		default:
			out.WriteByte(s[i])
		}
	}
	a.taken, a.names = len(a.positional), nil // surplus arguments are ignored
	return out.String()
}

// field is an argument by position or name.
func (a *args) field(name string) any {
	if i, err := strconv.Atoi(name); err == nil {
		if i < 0 || i >= len(a.positional) {
			fail("format: there is no argument %d", i)
		}
		return a.positional[i]
	}
	for i, n := range a.names {
		if n == name {
			return a.keywords[i]
		}
	}
	fail("format: there is no argument %s", name)
	return nil
}

// percent is "text % values", with %s, %d and %%.
func percent(f *frame, s string, values any) string {
	rest := oneOrMore(values)
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out.WriteByte(s[i])
			continue
		}
		i++
		if i < len(s) && s[i] == '%' {
			out.WriteByte('%')
			continue
		}
		if i == len(s) || s[i] != 's' && s[i] != 'd' {
			fail("%%: only %%s, %%d and %%%% are supported")
		}
		if len(rest) == 0 {
			fail("%%: there are not enough values")
		}
		if n, ok := whole(rest[0]); s[i] == 'd' {
			if !ok {
				fail("%%d needs a whole number, not %s", typeName(rest[0]))
			}
			out.WriteString(strconv.Itoa(n))
		} else {
			out.WriteString(f.r.str(rest[0]))
		}
		rest = rest[1:]
	}
	if len(rest) > 0 {
		fail("%%: there are too many values")
	}
	return out.String()
}
