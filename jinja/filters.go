package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

func textFilters() map[string]filterFunc {
	method := func(name string) filterFunc {
		return func(f *frame, v any, a *args) any {
			s := f.r.str(v)
			f.r.spend(len(s))
			return stringMethod(s, name).(*function).call(f, a)
		}
	}
	escape := func(f *frame, v any, _ *args) any {
		s := f.r.str(v)
		f.r.spend(6 * len(s))
		return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
	}
	return map[string]filterFunc{
		"trim":       method("strip"),
		"upper":      method("upper"),
		"lower":      method("lower"),
		"capitalize": method("capitalize"),
		"title":      func(f *frame, v any, _ *args) any { return titled(f.r.str(v)) },
		"string":     func(f *frame, v any, _ *args) any { return f.r.str(v) },
		"safe":       func(f *frame, v any, _ *args) any { return f.r.str(v) },
		"escape":     escape,
		"e":          escape,
		"replace": func(f *frame, v any, a *args) any {
			from, to := f.r.str(a.need("old")), f.r.str(a.need("new"))
			most := -1
			if n := a.or("count", nil); n != nil {
				most, _ = whole(n)
			}
			return replaced(f, f.r.str(v), from, to, most)
		},
		"indent": indented,
		"center": func(f *frame, v any, a *args) any {
			s, width := f.r.str(v), a.number("width", 80)
			return centered(f, s, " ", width-length(s), width)
		},
		"truncate": truncated,
		"format": func(f *frame, v any, a *args) any {
			a.taken = len(a.positional)
			return percent(f, f.r.str(v), Tuple(a.positional))
		},
		"wordcount": func(f *frame, v any, _ *args) any {
			return len(strings.FieldsFunc(f.r.str(v), func(r rune) bool { return !isWord(r) }))
		},
	}
}

// titled is the filter title: words begin after white space and brackets, unlike with str.title after any other sign.
func titled(s string) string {
	var out strings.Builder
	before := ' '
	for _, r := range s {
		if isSpace(before) || strings.ContainsRune("-([{<", before) {
			out.WriteString(upper(string(r)))
		} else {
			out.WriteString(lower(string(r)))
		}
		before = r
	}
	return out.String()
}

func indented(f *frame, v any, a *args) any {
	s := f.r.str(v)
	by, isText := a.or("width", 4), false
	first, blank := truth(a.or("first", false)), truth(a.or("blank", false))
	pad, isText := by.(string)
	if !isText {
		n, _ := whole(by)
		pad = times(f, " ", n)
	}
	f.r.spendTimes(len(pad), strings.Count(s, "\n")+1)
	all := strings.Split(s, "\n")
	if !blank { // Jinja splits with splitlines, which drops a last line break
		all = lines(s+"\n", false)
	}
	for i := range all {
		if i > 0 && (blank || all[i] != "") {
			all[i] = pad + all[i]
		}
	}
	out := strings.Join(all, "\n")
	if first {
		out = pad + out
	}
	return out
}

func truncated(f *frame, v any, a *args) any {
	s := []rune(f.r.str(v))
	n, kill := a.number("length", 255), truth(a.or("killwords", false))
	end := []rune(f.r.str(a.or("end", "...")))
	leeway := 5
	if v := a.or("leeway", nil); v != nil {
		leeway, _ = whole(v)
	}
	if n < len(end) || leeway < 0 {
		fail("truncate: the length is shorter than the end")
	}
	if len(s) <= n+leeway {
		return string(s)
	}
	head := string(s[:n-len(end)])
	if !kill {
		if at := strings.LastIndexByte(head, ' '); at >= 0 {
			head = head[:at]
		}
	}
	return head + string(end)
}

func numberFilters() map[string]filterFunc {
	return map[string]filterFunc{
		"int": func(_ *frame, v any, a *args) any {
			otherwise := a.or("default", 0)
			switch v := defined(v).(type) {
			case float64:
				if math.Abs(v) < 1<<62 {
					return int(v)
				}
			case string:
				if n, err := strconv.Atoi(strings.TrimFunc(v, isSpace)); err == nil {
					return n
				}
				if x, err := strconv.ParseFloat(strings.TrimFunc(v, isSpace), 64); err == nil && math.Abs(x) < 1<<62 {
					return int(x)
				}
			default:
				if n, ok := whole(v); ok {
					return n
				}
			}
			return otherwise
		},
		"float": func(_ *frame, v any, a *args) any {
			otherwise := a.or("default", 0.0)
			defined(v)
			if x, ok := float(v); ok {
				return x
			}
			if s, ok := v.(string); ok {
				if x, err := strconv.ParseFloat(strings.TrimFunc(s, isSpace), 64); err == nil {
					return x
				}
			}
			return otherwise
		},
		"abs": func(f *frame, v any, _ *args) any {
			if f.r.order(v, 0) < 0 {
				return arithmetic(f, "*", v, -1)
			}
			return arithmetic(f, "*", v, 1) // a bool becomes a number
		},
		"round": func(f *frame, v any, a *args) any {
			x, ok := float(v)
			digits, how := a.number("precision", 0), f.r.str(a.or("method", "common"))
			if !ok || digits < 0 || digits > 15 {
				fail("round needs a number, and a precision from 0 to 15")
			}
			scale := math.Pow10(digits)
			switch how {
			case "common":
				if n, ok := whole(v); ok {
					return n
				}
				n, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
				if err != nil {
					fail("round: %v", err)
				}
				return n
			case "ceil":
				return math.Ceil(x*scale) / scale
			case "floor":
				return math.Floor(x*scale) / scale
			}
			fail("round: the method %q is not known", how)
			return nil
		},
	}
}

func listFilters() map[string]filterFunc {
	count := func(_ *frame, v any, _ *args) any { return length(v) }
	fallback := func(_ *frame, v any, a *args) any {
		otherwise, falsy := a.or("default_value", ""), truth(a.or("boolean", false))
		if isUndefined(v) || falsy && !truth(v) {
			return otherwise
		}
		return v
	}
	end := func(last bool) filterFunc {
		return func(f *frame, v any, _ *args) any {
			items := iterate(f, v)
			switch {
			case len(items) == 0:
				return &undefined{"an item of what is empty"}
			case last:
				return items[len(items)-1]
			}
			return items[0]
		}
	}
	return map[string]filterFunc{
		"length": count, "count": count, "default": fallback, "d": fallback, "first": end(false), "last": end(true),
		"list": func(f *frame, v any, _ *args) any { return &List{iterate(f, v)} },
		"items": func(_ *frame, v any, _ *args) any {
			if isUndefined(v) {
				return &List{}
			}
			d, ok := v.(*Dict)
			if !ok {
				fail("items needs a dictionary, not %s", typeName(v))
			}
			return pairsOf(d)
		},
		"join": func(f *frame, v any, a *args) any {
			by, attr := f.r.str(a.or("d", "")), a.or("attribute", nil)
			var parts []string
			for _, x := range iterate(f, v) {
				if attr != nil {
					x = path(f, x, attr)
				}
				parts = append(parts, f.r.str(x))
				f.r.spend(len(parts[len(parts)-1]) + len(by))
			}
			return strings.Join(parts, by)
		},
		"batch": func(f *frame, v any, a *args) any {
			n, fill := a.number("linecount", 0), a.or("fill_with", nil)
			if n < 1 {
				fail("batch needs a number above 0")
			}
			out := []any{}
			for part := range slices.Chunk(iterate(f, v), n) {
				part = slices.Clone(part)
				if missing := n - len(part); fill != nil && missing > 0 {
					f.r.spendTimes(itemBytes, missing)
					part = append(part, slices.Repeat([]any{fill}, missing)...)
				}
				out = append(out, &List{part})
			}
			return &List{out}
		},
	}
}

// orderFilters are the filters that sort or compare.
func orderFilters() map[string]filterFunc {
	return map[string]filterFunc{
		"reverse": func(f *frame, v any, _ *args) any {
			items := slices.Clone(iterate(f, v))
			slices.Reverse(items)
			if _, ok := v.(string); ok {
				var out strings.Builder
				for _, x := range items {
					out.WriteString(f.r.str(x))
				}
				return out.String()
			}
			return &List{items}
		},
		"sort": func(f *frame, v any, a *args) any {
			back, exact, attr := truth(a.or("reverse", false)), truth(a.or("case_sensitive", false)),
				a.or("attribute", nil)
			return &List{sorted(f, iterate(f, v), back, func(x any) any { return folded(path(f, x, attr), exact) })}
		},
		"unique": func(f *frame, v any, a *args) any {
			exact, attr := truth(a.or("case_sensitive", false)), a.or("attribute", nil)
			seen, out := NewDict(), []any{}
			for _, x := range iterate(f, v) {
				key := folded(path(f, x, attr), exact)
				if _, ok := seen.Get(key); !ok {
					seen.Set(key, true)
					out = append(out, x)
				}
			}
			return &List{out}
		},
		"dictsort": func(f *frame, v any, a *args) any {
			d, ok := v.(*Dict)
			if !ok {
				fail("dictsort needs a dictionary, not %s", typeName(v))
			}
			exact, by, back := truth(a.or("case_sensitive", false)), f.r.str(a.or("by", "key")),
				truth(a.or("reverse", false))
			at := 0
			if by == "value" {
				at = 1
			}
			return &List{sorted(f, pairsOf(d).Items, back, func(x any) any { return folded(x.(Tuple)[at], exact) })}
		},
	}
}

// folded is a text without case, unless exact is set.
func folded(v any, exact bool) any {
	if s, ok := v.(string); ok && !exact {
		return lower(s)
	}
	return v
}

// sorted sorts by a key, keeping the order of equal items.
func sorted(f *frame, items []any, back bool, key func(any) any) []any {
	f.r.spend(16 * len(items))
	out := slices.Clone(items)
	slices.SortStableFunc(out, func(a, b any) int {
		f.r.spend(1)
		if back {
			return f.r.order(key(b), key(a))
		}
		return f.r.order(key(a), key(b))
	})
	return out
}
