package h1

import "strings"

// tokenChars are the characters of a header name or method (RFC 9110 §5.6.2).
var tokenChars = func() (t [256]bool) {
	for c := range t {
		alpha := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		t[c] = alpha || c > 0 && c < 0x80 && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return t
}()

func isToken(s string) bool {
	for i := range len(s) {
		if !tokenChars[s[i]] {
			return false
		}
	}
	return s != ""
}

// isFieldValue reports that s has no control character but the tab (RFC 9110 §5.5): above all no line break.
func isFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isPlain reports that s is visible ASCII and can stand in a request line.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return s != ""
}

// isUnreserved reports that s is an absolute path that needs no escaping.
func isUnreserved(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			c == '/' || c == '-' || c == '_' || c == '.' || c == '~') {
			return false
		}
	}
	return s != "" && s[0] == '/' && !strings.HasPrefix(s, "//")
}

// foldIs compares a header name without regard to case, the length first since it nearly always decides.
func foldIs(name, want string) bool {
	return len(name) == len(want) && strings.EqualFold(name, want)
}

// hasToken reports whether a comma-separated list holds token, without regard to case.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for v != "" {
			var item string
			item, v, _ = strings.Cut(v, ",")
			if foldIs(trimSpace(item), token) {
				return true
			}
		}
	}
	return false
}

// trimSpace removes surrounding spaces and tabs, the only white space allowed around a header value.
func trimSpace(s string) string { return strings.Trim(s, " \t") }
