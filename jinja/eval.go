package jinja

import (
	"math/big"
	"strings"
)

func (e *constant) eval(*frame) any { return e.v }

func (e *name) eval(f *frame) any { return f.lookup(e.name) }

func (e *attribute) eval(f *frame) any { return attributeOf(f, e.of.eval(f), e.name) }

func (e *item) eval(f *frame) any { return itemOf(f, e.of.eval(f), e.key.eval(f)) }

func (e *listOf) eval(f *frame) any { return &List{evalAll(f, e.items)} }

func (e *tupleOf) eval(f *frame) any { return Tuple(evalAll(f, e.items)) }

func evalAll(f *frame, items []expr) []any {
	out := make([]any, len(items))
	for i, e := range items {
		out[i] = e.eval(f)
	}
	return out
}

func (e *dictOf) eval(f *frame) any {
	d := NewDict()
	for i := range e.keys {
		d.Set(e.keys[i].eval(f), e.values[i].eval(f))
	}
	return d
}

func (e *choice) eval(f *frame) any {
	switch {
	case truth(e.test.eval(f)):
		return e.yes.eval(f)
	case e.no != nil:
		return e.no.eval(f)
	}
	return &undefined{"a conditional expression without else, whose condition is false,"}
}

func (e *binary) eval(f *frame) any { return arithmetic(f, e.op, e.left.eval(f), e.right.eval(f)) }

func (e *logic) eval(f *frame) any {
	left := e.left.eval(f)
	if truth(left) != e.and {
		return left
	}
	return e.right.eval(f)
}

func (e *negation) eval(f *frame) any { return !truth(e.of.eval(f)) }

func (e *sign) eval(f *frame) any {
	v := defined(e.of.eval(f))
	if !e.minus {
		if _, ok := float(v); !ok {
			fail("+ is not possible with %s", typeName(v))
		}
		return v
	}
	if n, ok := whole(v); ok {
		return -n
	}
	switch v := v.(type) {
	case float64:
		return -v
	case *big.Int:
		return new(big.Int).Neg(v)
	}
	fail("- is not possible with %s", typeName(v))
	return nil
}

func (e *compare) eval(f *frame) any {
	left := e.first.eval(f)
	for i, op := range e.ops {
		right := e.rest[i].eval(f)
		if !compared(f, op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (e *concat) eval(f *frame) any {
	var out strings.Builder
	for _, part := range e.parts {
		out.WriteString(f.r.str(part.eval(f)))
		f.r.spend(out.Len())
	}
	return out.String()
}

func (e *call) eval(f *frame) any {
	fn := e.fn.eval(f)
	switch fn := defined(fn).(type) {
	case *function:
		f.r.spend(1)
		return fn.call(f, e.args.eval(f, fn.name))
	default:
		fail("a value of type %s cannot be called", typeName(fn))
	}
	return nil
}

func (e *filter) eval(f *frame) any {
	return f.filter(e.name, e.of.eval(f), e.args.eval(f, e.name))
}

func (e *test) eval(f *frame) any {
	return f.test(e.name, e.of.eval(f), e.args.eval(f, e.name))
}

func (a *arguments) eval(f *frame, what string) *args {
	out := &args{
		what: what, positional: evalAll(f, a.positional), names: append([]string(nil), a.names...),
		keywords: evalAll(f, a.keywords),
	}
	if a.rest != nil {
		out.positional = append(out.positional, iterate(f, a.rest.eval(f))...)
	}
	if a.more != nil {
		d, ok := a.more.eval(f).(*Dict)
		if !ok {
			fail("%s: ** needs a dictionary", what)
		}
		for i, k := range d.keys {
			out.names = append(out.names, f.r.str(k))
			out.keywords = append(out.keywords, d.values[i])
		}
	}
	return out
}

func (e *slice) eval(f *frame) any {
	v := defined(e.of.eval(f))
	part := func(e expr) any {
		if e == nil {
			return nil
		}
		return e.eval(f)
	}
	from, to, step := part(e.from), part(e.to), part(e.step)
	if s, ok := v.(string); ok {
		f.r.spend(len(s))
		runes := []rune(s)
		out := make([]rune, 0, len(runes))
		for _, i := range places(len(runes), from, to, step) {
			out = append(out, runes[i])
		}
		return string(out)
	}
	items, ok := sequence(v)
	if !ok {
		fail("a value of type %s cannot be sliced", typeName(v))
	}
	f.r.spend(len(items))
	out := []any{}
	for _, i := range places(len(items), from, to, step) {
		out = append(out, items[i])
	}
	if _, ok := v.(Tuple); ok {
		return Tuple(out)
	}
	return &List{out}
}

// places are the indexes of a slice, by Python's rules.
func places(n int, from, to, step any) []int {
	bound := func(v any, otherwise, low, high int) int {
		if v == nil {
			return otherwise
		}
		i, ok := whole(v)
		if !ok {
			fail("a slice needs whole numbers, not %s", typeName(v))
		}
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	by := 1
	if step != nil {
		var ok bool
		if by, ok = whole(step); !ok || by == 0 {
			fail("the step of a slice must be a whole number and not 0")
		}
	}
	var out []int
	if by > 0 {
		for i, end := bound(from, 0, 0, n), bound(to, n, 0, n); i < end; {
			out = append(out, i)
			if by >= end-i {
				break
			}
			i += by
		}
		return out
	}
	for i, end := bound(from, n-1, -1, n-1), bound(to, -1, -1, n-1); i > end; {
		out = append(out, i)
		if by <= end-i {
			break
		}
		i += by
	}
	return out
}
