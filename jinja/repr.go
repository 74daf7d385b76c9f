package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str().
func (r *rendering) str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case *undefined:
		return ""
	}
	return r.repr(v, 0)
}

// repr is Python's repr().
func (r *rendering) repr(v any, depth int) string {
	r.spend(1)
	if depth > mostDepth {
		fail("a value is nested too deep")
	}
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int:
		return strconv.Itoa(v)
	case *big.Int:
		return v.String()
	case float64:
		return pyFloat(v)
	case string:
		return quoted(v)
	case *List:
		return "[" + r.reprs(v.Items, depth) + "]"
	case Tuple:
		if len(v) == 1 {
			return "(" + r.repr(v[0], depth+1) + ",)"
		}
		return "(" + r.reprs(v, depth) + ")"
	case *Dict:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = r.repr(v.keys[i], depth+1) + ": " + r.repr(v.values[i], depth+1)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *undefined:
		return "Undefined"
	}
	fail("a value of type %s cannot be printed", typeName(v))
	return ""
}

func (r *rendering) reprs(items []any, depth int) string {
	parts := make([]string, len(items))
	for i, v := range items {
		parts[i] = r.repr(v, depth+1)
	}
	return strings.Join(parts, ", ")
}

// quoted is Python's repr of a str.
func quoted(s string) string {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	var out strings.Builder
	out.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			out.WriteRune('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	out.WriteRune(quote)
	return out.String()
}

// pyFloat is Python's repr of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16
// on.
func pyFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	exp := strconv.FormatFloat(f, 'e', -1, 64)
	_, e, _ := strings.Cut(exp, "e")
	if n, err := strconv.Atoi(e); err == nil && (n < -4 || n >= 16) {
		return exp
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
