package jinja

// selectFilters are the filters that apply another filter or a test to a list, and those that compute one value of a
// list.
func selectFilters() map[string]filterFunc {
	return map[string]filterFunc{
		"select": choose(false, true), "reject": choose(false, false), "selectattr": choose(true, true),
		"rejectattr": choose(true, false), "map": mapped, "max": extreme(1), "min": extreme(-1),
		"sum": func(f *frame, v any, a *args) any {
			attr, total := a.or("attribute", nil), a.or("start", 0)
			for _, x := range iterate(f, v) {
				total = arithmetic(f, "+", total, path(f, x, attr))
			}
			return total
		},
		"groupby": grouped,
		"attr": func(f *frame, v any, a *args) any {
			name := a.text("name")
			if _, ok := v.(*Dict); ok {
				if m := dictMethod(v.(*Dict), name); m != nil {
					return m
				}
				return &undefined{name} // attr reads attributes only, not keys
			}
			return attributeOf(f, v, name)
		},
	}
}

// choose is select and its variants: attribute applies the test to one; keep keeps items that pass.
func choose(attribute, keep bool) filterFunc {
	return func(f *frame, v any, a *args) any {
		var attr any
		if attribute {
			attr = a.need("attribute")
		}
		name, named := a.take("test")
		rest := *a
		a.taken, a.names = len(a.positional), nil
		out := []any{}
		for _, x := range iterate(f, v) {
			f.r.spend(1)
			value := path(f, x, attr)
			ok := truth(value)
			if named {
				again := rest
				ok = f.test(f.r.str(name), value, &again)
			}
			if ok == keep {
				out = append(out, x)
			}
		}
		return &List{out}
	}
}

// extreme is max, and min with the sign -1.
func extreme(sign int) filterFunc {
	return func(f *frame, v any, a *args) any {
		exact, attr := truth(a.or("case_sensitive", false)), a.or("attribute", nil)
		items := iterate(f, v)
		if len(items) == 0 {
			return &undefined{"the least or the greatest of nothing"}
		}
		best := items[0]
		for _, x := range items[1:] {
			if sign*f.r.order(folded(path(f, x, attr), exact), folded(path(f, best, attr), exact)) > 0 {
				best = x
			}
		}
		return best
	}
}

// grouped is groupby: pairs of a value and the list of items with it.
func grouped(f *frame, v any, a *args) any {
	attr, otherwise := a.need("attribute"), a.or("default", nil)
	exact := truth(a.or("case_sensitive", false))
	key := func(x any) any {
		k := path(f, x, attr)
		if isUndefined(k) && otherwise != nil {
			k = otherwise
		}
		return k
	}
	out := []any{}
	var last any
	for i, x := range sorted(f, iterate(f, v), false, func(x any) any { return folded(key(x), exact) }) {
		k := key(x)
		if i > 0 && f.r.equal(folded(k, exact), last, 0) {
			group := out[len(out)-1].(Tuple)[1].(*List)
			group.Items = append(group.Items, x)
			continue
		}
		last = folded(k, exact)
		out = append(out, Tuple{k, &List{[]any{x}}})
	}
	return &List{out}
}

// mapped is map(attribute=...) or map(filter, arguments of the filter...).
func mapped(f *frame, v any, a *args) any {
	out := []any{}
	if attr, ok := a.keyword("attribute"); ok {
		otherwise, has := a.keyword("default")
		for _, x := range iterate(f, v) {
			f.r.spend(1)
			got := path(f, x, attr)
			if isUndefined(got) && has {
				got = otherwise
			}
			out = append(out, got)
		}
		return &List{out}
	}
	name := a.text("filter")
	rest := *a
	a.taken, a.names = len(a.positional), nil
	for _, x := range iterate(f, v) {
		again := rest
		out = append(out, f.filter(name, x, &again))
	}
	return &List{out}
}
