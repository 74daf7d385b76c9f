package jinja

import (
	"strings"
	"unicode/utf8"
)

// changes reports whether a method would change its value: transformers' sandbox rejects those.
func changes(v any, name string) bool {
	switch v.(type) {
	case *List:
		return strings.Contains(" append clear extend insert pop remove reverse sort ", " "+name+" ")
	case *Dict:
		return strings.Contains(" clear pop popitem setdefault update ", " "+name+" ")
	}
	return false
}

func unsafe(v any, name string) any {
	return &undefined{"the method " + name + " of a " + typeName(v) +
		", which would change it and is not allowed in a chat template,"}
}

func dictMethod(d *Dict, name string) any {
	if changes(d, name) {
		return unsafe(d, name)
	}
	switch name {
	case "items":
		return method(name, func(f *frame, _ *args) any {
			f.r.spend(d.Len())
			return pairsOf(d)
		})
	case "keys":
		return method(name, func(*frame, *args) any { return &List{d.keys} })
	case "values":
		return method(name, func(*frame, *args) any { return &List{d.values} })
	case "copy":
		return method(name, func(*frame, *args) any { return d })
	case "get":
		return method(name, func(_ *frame, a *args) any {
			key, otherwise := a.need("key"), a.or("default", nil)
			if v, ok := d.Get(key); ok {
				return v
			}
			return otherwise
		})
	}
	return nil
}

func pairsOf(d *Dict) *List {
	out := make([]any, d.Len())
	for i := range out {
		out[i] = Tuple{d.keys[i], d.values[i]}
	}
	return &List{out}
}

func listMethod(v any, name string) any {
	if changes(v, name) {
		return unsafe(v, name)
	}
	items, _ := sequence(v)
	switch name {
	case "index":
		return method(name, func(f *frame, a *args) any {
			x := a.need("value")
			for i, y := range items {
				if f.r.equal(x, y, 0) {
					return i
				}
			}
			fail("the value is not in the list")
			return nil
		})
	case "count":
		return method(name, func(f *frame, a *args) any {
			x, n := a.need("value"), 0
			for _, y := range items {
				if f.r.equal(x, y, 0) {
					n++
				}
			}
			return n
		})
	case "copy":
		return method(name, func(*frame, *args) any { return v })
	}
	return nil
}

// stringMethod is a method of a text; nil for an unknown one.
func stringMethod(s, name string) any {
	for _, group := range []func(s, name string) func(f *frame, a *args) any{
		stripMethod, splitMethod, findMethod, caseMethod, askMethod, shapeMethod,
	} {
		if call := group(s, name); call != nil {
			return method(name, func(f *frame, a *args) any {
				f.r.spend(len(s))
				return call(f, a)
			})
		}
	}
	return nil
}

func stripMethod(s, name string) func(*frame, *args) any {
	strip := func(left, right bool) func(*frame, *args) any {
		return func(_ *frame, a *args) any {
			cut := isSpace
			if v := a.or("chars", nil); v != nil {
				chars, ok := v.(string)
				if !ok {
					fail("%s needs a text, not %s", name, typeName(v))
				}
				cut = func(r rune) bool { return strings.ContainsRune(chars, r) }
			}
			out := s
			if left {
				out = strings.TrimLeftFunc(out, cut)
			}
			if right {
				out = strings.TrimRightFunc(out, cut)
			}
			return out
		}
	}
	switch name {
	case "strip":
		return strip(true, true)
	case "lstrip":
		return strip(true, false)
	case "rstrip":
		return strip(false, true)
	case "removeprefix":
		return func(_ *frame, a *args) any { return strings.TrimPrefix(s, a.text("prefix")) }
	case "removesuffix":
		return func(_ *frame, a *args) any { return strings.TrimSuffix(s, a.text("suffix")) }
	}
	return nil
}

func splitMethod(s, name string) func(*frame, *args) any {
	switch name {
	case "split", "rsplit":
		return func(_ *frame, a *args) any {
			sep := a.or("sep", nil)
			most := a.number("maxsplit", -1)
			if sep == nil {
				if most >= 0 {
					fail("%s by white space with maxsplit is not supported", name)
				}
				return texts(strings.FieldsFunc(s, isSpace))
			}
			by, ok := sep.(string)
			if !ok || by == "" {
				fail("%s needs a text that is not empty", name)
			}
			if most < 0 {
				return texts(strings.Split(s, by))
			}
			if name == "split" {
				return texts(strings.SplitN(s, by, most+1))
			}
			all := strings.Split(s, by)
			if n := len(all) - most; n > 1 {
				all = append([]string{strings.Join(all[:n], by)}, all[n:]...)
			}
			return texts(all)
		}
	case "splitlines":
		return func(_ *frame, a *args) any { return texts(lines(s, truth(a.or("keepends", false)))) }
	case "partition", "rpartition":
		return func(_ *frame, a *args) any {
			by := a.text("sep")
			if by == "" {
				fail("%s needs a text that is not empty", name)
			}
			at := strings.Index(s, by)
			if name == "rpartition" {
				at = strings.LastIndex(s, by)
			}
			switch {
			case at >= 0:
				return Tuple{s[:at], by, s[at+len(by):]}
			case name == "partition":
				return Tuple{s, "", ""}
			}
			return Tuple{"", "", s}
		}
	case "join":
		return func(f *frame, a *args) any {
			var parts []string
			for _, v := range iterate(f, defined(a.need("iterable"))) {
				part, ok := v.(string)
				if !ok {
					fail("join needs texts, not %s", typeName(v))
				}
				f.r.spend(len(part) + len(s))
				parts = append(parts, part)
			}
			return strings.Join(parts, s)
		}
	}
	return nil
}

func texts(parts []string) *List {
	out := make([]any, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return &List{out}
}

// lines splits a text like Python's splitlines.
func lines(s string, keep bool) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		end := i + n
		switch r {
		case '\r':
			if strings.HasPrefix(s[end:], "\n") {
				end++
			}
		case '\n', '\v', '\f', 0x1C, 0x1D, 0x1E, 0x85, 0x2028, 0x2029:
		default:
			i = end
			continue
		}
		if keep {
			i = end
		}
		out = append(out, s[start:i])
		start, i = end, end
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

func findMethod(s, name string) func(*frame, *args) any {
	at := func(i int) int {
		if i < 0 {
			return -1
		}
		return utf8.RuneCountInString(s[:i])
	}
	affix := func(has func(s, t string) bool) func(*frame, *args) any {
		return func(_ *frame, a *args) any {
			v := a.need(name)
			for _, x := range oneOrMore(v) {
				t, ok := x.(string)
				if !ok {
					fail("%s needs texts, not %s", name, typeName(x))
				}
				if has(s, t) {
					return true
				}
			}
			return false
		}
	}
	switch name {
	case "startswith":
		return affix(strings.HasPrefix)
	case "endswith":
		return affix(strings.HasSuffix)
	case "find":
		return func(_ *frame, a *args) any { return at(strings.Index(s, a.text("sub"))) }
	case "rfind":
		return func(_ *frame, a *args) any { return at(strings.LastIndex(s, a.text("sub"))) }
	case "index":
		return func(_ *frame, a *args) any {
			i := at(strings.Index(s, a.text("sub")))
			if i < 0 {
				fail("the text is not there")
			}
			return i
		}
	case "count":
		return func(_ *frame, a *args) any { return strings.Count(s, a.text("sub")) }
	case "replace":
		return func(f *frame, a *args) any {
			return replaced(f, s, a.text("old"), a.text("new"), a.number("count", -1))
		}
	}
	return nil
}

func replaced(f *frame, s, from, to string, most int) string {
	f.r.spendTimes(len(to), strings.Count(s, from))
	return strings.Replace(s, from, to, most)
}
