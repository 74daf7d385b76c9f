package jinja

import "math/big"

// testFuncs are the tests by name (jinja2.tests).
func testFuncs() map[string]testFunc {
	is := func(fn func(v any) bool) testFunc {
		return func(_ *frame, v any, _ *args) bool { return fn(v) }
	}
	with := func(fn func(f *frame, v, other any) bool) testFunc {
		return func(f *frame, v any, a *args) bool { return fn(f, v, a.need("other")) }
	}
	op := func(op string) testFunc {
		return with(func(f *frame, v, other any) bool { return compared(f, op, v, other) })
	}
	odd := func(rest any) testFunc {
		return func(f *frame, v any, _ *args) bool { return f.r.equal(arithmetic(f, "%", v, 2), rest, 0) }
	}
	return map[string]testFunc{
		"defined":   is(func(v any) bool { return !isUndefined(v) }),
		"undefined": is(isUndefined),
		"none":      is(func(v any) bool { return v == nil }),
		"true":      is(func(v any) bool { return v == true }),
		"false":     is(func(v any) bool { return v == false }),
		"boolean":   is(func(v any) bool { _, ok := v.(bool); return ok }),
		"string":    is(func(v any) bool { _, ok := v.(string); return ok }),
		"mapping":   is(func(v any) bool { _, ok := v.(*Dict); return ok }),
		"number":    is(func(v any) bool { _, ok := float(v); return ok }),
		"float":     is(func(v any) bool { _, ok := v.(float64); return ok }),
		"integer": is(func(v any) bool {
			switch v.(type) {
			case int, *big.Int:
				return true
			}
			return false
		}),
		"iterable": is(func(v any) bool {
			switch v.(type) {
			case string, *List, Tuple, *Dict, *undefined:
				return true
			}
			return false
		}),
		"sequence": is(func(v any) bool {
			switch v.(type) {
			case string, *List, Tuple, *Dict, *undefined:
				return true
			}
			return false
		}),
		"callable": is(func(v any) bool { _, ok := v.(*function); return ok }),
		"lower":    func(f *frame, v any, _ *args) bool { s := f.r.str(v); return s == lower(s) && s != upper(s) },
		"upper":    func(f *frame, v any, _ *args) bool { s := f.r.str(v); return s == upper(s) && s != lower(s) },
		"odd":      odd(1),
		"even":     odd(0),
		"divisibleby": with(func(f *frame, v, other any) bool {
			return f.r.equal(arithmetic(f, "%", v, other), 0, 0)
		}),
		"sameas": with(func(f *frame, v, other any) bool {
			return typeName(v) == typeName(other) && f.r.equal(v, other, 0)
		}),
		"in": op("in"),
		"eq": op("=="), "equalto": op("=="), "ne": op("!="), "lt": op("<"), "lessthan": op("<"), "le": op("<="),
		"gt": op(">"), "greaterthan": op(">"), "ge": op(">="),
		"filter": func(f *frame, v any, _ *args) bool { _, ok := f.known.filters[f.r.str(v)]; return ok },
		"test":   func(f *frame, v any, _ *args) bool { _, ok := f.known.tests[f.r.str(v)]; return ok },
	}
}
