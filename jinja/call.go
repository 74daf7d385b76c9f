package jinja

// function is a callable value.
type function struct {
	name string
	call func(f *frame, a *args) any
}

func method(name string, call func(f *frame, a *args) any) any {
	return &function{name: name, call: func(f *frame, a *args) any {
		out := call(f, a)
		a.done()
		return out
	}}
}

// iterate returns the items of a for loop.
func iterate(f *frame, v any) []any {
	switch v := v.(type) {
	case *undefined:
		return nil
	case *List:
		return v.Items
	case Tuple:
		return v
	case *Dict:
		return v.keys
	case string:
		f.r.spend(len(v))
		out := make([]any, 0, len(v))
		for _, r := range v {
			out = append(out, string(r))
		}
		return out
	}
	fail("a value of type %s cannot be iterated", typeName(v))
	return nil
}

func takenApart(f *frame, v any, n int) []any {
	items := iterate(f, defined(v))
	if len(items) != n {
		fail("%d values are to be taken apart into %d", len(items), n)
	}
	return items
}
