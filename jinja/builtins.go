package jinja

import (
	"strings"
	"time"
)

// mostRange is the longest range (jinja2.sandbox.MAX_RANGE).
const mostRange = 100_000

// builtins are the functions of every template; strftime_now formats now.
func builtins(now time.Time) map[string]any {
	return map[string]any{
		"range":     method("range", rangeOf),
		"dict":      &function{name: "dict", call: dictOfArgs},
		"namespace": &function{name: "namespace", call: namespaceOf},
		"raise_exception": method("raise_exception", func(f *frame, a *args) any {
			panic(fault{&Refusal{f.r.str(a.need("message"))}})
		}),
		"strftime_now": method("strftime_now", func(_ *frame, a *args) any {
			return strftime(now, a.text("format"))
		}),
	}
}

func rangeOf(f *frame, a *args) any {
	start, stop, step := 0, a.number("start", 0), 1
	if len(a.positional) == 0 {
		fail("range needs a number")
	}
	if len(a.positional) > 1 {
		start, stop, step = stop, a.number("stop", 0), a.number("step", 1)
	}
	if step == 0 {
		fail("the step of a range must not be 0")
	}
	out := []any{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(out) == mostRange {
			fail("a range has more than %d numbers", mostRange)
		}
		out = append(out, i)
	}
	f.r.spend(len(out))
	return &List{out}
}

// dictOfArgs is dict(other, name=value).
func dictOfArgs(f *frame, a *args) any {
	out := NewDict()
	if v, ok := a.take("mapping"); ok && len(a.positional) > 0 {
		if d, ok := v.(*Dict); ok {
			for i, k := range d.keys {
				out.Set(k, d.values[i])
			}
		} else {
			for _, pair := range iterate(f, defined(v)) {
				kv := takenApart(f, pair, 2)
				out.Set(kv[0], kv[1])
			}
		}
	}
	for i, name := range a.names {
		out.Set(name, a.keywords[i])
	}
	f.r.spend(out.Len())
	return out
}

func namespaceOf(f *frame, a *args) any {
	ns := &namespace{vars: map[string]any{}}
	d, _ := dictOfArgs(f, a).(*Dict)
	for i, k := range d.keys {
		ns.vars[f.r.str(k)] = d.values[i]
	}
	return ns
}

// strftime formats a time as Python's strftime does in the C locale.
func strftime(t time.Time, format string) string {
	layouts := map[string]string{
		"%Y": "2006", "%y": "06", "%m": "01", "%-m": "1", "%d": "02", "%-d": "2", "%e": "_2", "%b": "Jan", "%h": "Jan",
		"%B": "January", "%a": "Mon", "%A": "Monday", "%H": "15", "%I": "03", "%-I": "3", "%M": "04", "%S": "05",
		"%p": "PM", "%j": "002", "%F": "2006-01-02", "%T": "15:04:05", "%D": "01/02/06", "%R": "15:04",
	}
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			out.WriteByte(format[i])
			continue
		}
		end := min(i+2, len(format))
		if end < len(format) && format[end-1] == '-' {
			end++
		}
		switch directive := format[i:end]; {
		case directive == "%%":
			out.WriteByte('%')
		case layouts[directive] != "":
			out.WriteString(t.Format(layouts[directive]))
		default:
			fail("strftime_now: %q is not supported", directive)
		}
		i = end - 1
	}
	return out.String()
}

// Refusal is the message of raise_exception.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return "the template refuses: " + r.Text }
