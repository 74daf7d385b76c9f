package jinja

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// arithmetic is one of + - * / // % **.
func arithmetic(f *frame, op string, left, right any) any {
	defined(left)
	defined(right)
	switch l := left.(type) {
	case string:
		if r, ok := right.(string); ok && op == "+" {
			f.r.spend(len(l) + len(r))
			return l + r
		}
		if n, ok := whole(right); ok && op == "*" {
			return times(f, l, n)
		}
		if op == "%" {
			return percent(f, l, right)
		}
	case *List:
		if r, ok := right.(*List); ok && op == "+" {
			return &List{joined(f, l.Items, r.Items)}
		}
		if n, ok := whole(right); ok && op == "*" {
			return &List{repeated(f, l.Items, n)}
		}
	case Tuple:
		if r, ok := right.(Tuple); ok && op == "+" {
			return Tuple(joined(f, l, r))
		}
	}
	if n, ok := whole(left); ok && op == "*" {
		switch r := right.(type) {
		case string:
			return times(f, r, n)
		case *List:
			return &List{repeated(f, r.Items, n)}
		}
	}
	if a, okA := whole(left); okA {
		if b, okB := whole(right); okB {
			return wholes(op, a, b)
		}
	}
	a, okA := float(left)
	b, okB := float(right)
	if !okA || !okB {
		fail("%s is not possible between %s and %s", op, typeName(left), typeName(right))
	}
	return floats(op, a, b)
}

func joined(f *frame, a, b []any) []any {
	f.r.spendItems(len(a) + len(b))
	return append(append(make([]any, 0, len(a)+len(b)), a...), b...)
}

func times(f *frame, s string, n int) string {
	f.r.spendTimes(len(s), n)
	return strings.Repeat(s, max(n, 0))
}

func repeated(f *frame, items []any, n int) []any {
	f.r.spendTimes(itemBytes*len(items), n)
	return slices.Repeat(items, max(n, 0))
}

// wholes computes with integers. Results beyond 64 bits are errors.
func wholes(op string, a, b int) any {
	x, y, z := big.NewInt(int64(a)), big.NewInt(int64(b)), new(big.Int)
	switch op {
	case "+":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		z.Mul(x, y)
	case "**":
		if b < 0 {
			return math.Pow(float64(a), float64(b))
		}
		if b > 64 && (a > 1 || a < -1) {
			fail("%d ** %d is too large", a, b)
		}
		z.Exp(x, y, nil)
	default:
		if b == 0 {
			fail("division by zero")
		}
		if op == "/" {
			return float64(a) / float64(b)
		}
		q, m := new(big.Int).DivMod(x, y, new(big.Int))
		if m.Sign() != 0 && b < 0 { // DivMod's rest is never negative; Python's has the sign of the divisor
			q.Sub(q, big.NewInt(1))
			m.Add(m, y)
		}
		if z = q; op == "%" {
			z = m
		}
	}
	if !z.IsInt64() {
		fail("%d %s %d is too large", a, op, b)
	}
	return int(z.Int64())
}

func floats(op string, a, b float64) any {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "**":
		return math.Pow(a, b)
	}
	if b == 0 {
		fail("division by zero")
	}
	switch op {
	case "/":
		return a / b
	case "//":
		return math.Floor(a / b)
	}
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m
}

// float is a number as a float.
func float(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, true
	}
	n, ok := whole(v)
	return float64(n), ok
}

// equal is Python's ==.
func (r *rendering) equal(a, b any, depth int) bool {
	r.spend(1)
	if depth > mostDepth {
		fail("a value is nested too deep")
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case *undefined:
		_, ok := b.(*undefined)
		return ok
	case string:
		y, ok := b.(string)
		return ok && x == y
	case *List:
		y, ok := b.(*List)
		return ok && r.equals(x.Items, y.Items, depth)
	case Tuple:
		y, ok := b.(Tuple)
		return ok && r.equals(x, y, depth)
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || x.Len() != y.Len() {
			return false
		}
		for i, k := range x.keys {
			v, ok := y.Get(k)
			if !ok || !r.equal(x.values[i], v, depth+1) {
				return false
			}
		}
		return true
	case *big.Int:
		y, ok := b.(*big.Int)
		return ok && x.Cmp(y) == 0
	case *namespace, *function, *looping:
		return a == b
	}
	x, okX := float(a)
	y, okY := float(b)
	if m, ok := whole(a); ok {
		if n, ok := whole(b); ok {
			return m == n
		}
	}
	return okX && okY && x == y
}

func (r *rendering) equals(a, b []any, depth int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !r.equal(a[i], b[i], depth+1) {
			return false
		}
	}
	return true
}

// order is below 0, 0 or above 0, as a sorts before, with or after b.
func (r *rendering) order(a, b any) int {
	r.spend(1)
	defined(a)
	defined(b)
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return strings.Compare(x, y) // the order of UTF-8 is that of code points
		}
	}
	x, okX := sequence(a)
	y, okY := sequence(b)
	if okX && okY && typeName(a) == typeName(b) {
		for i := range min(len(x), len(y)) {
			if !r.equal(x[i], y[i], 0) {
				return r.order(x[i], y[i])
			}
		}
		return len(x) - len(y)
	}
	m, okM := float(a)
	n, okN := float(b)
	if !okM || !okN {
		fail("%s and %s have no order", typeName(a), typeName(b))
	}
	switch {
	case m < n:
		return -1
	case m > n:
		return 1
	}
	return 0
}

// contains is Python's in.
func contains(f *frame, v, in any) bool {
	switch c := in.(type) {
	case string:
		s, ok := v.(string)
		if !ok {
			fail("in a text there are only texts, not %s", typeName(v))
		}
		return strings.Contains(c, s)
	case *Dict:
		_, ok := c.Get(v)
		return ok
	}
	for _, x := range iterate(f, in) {
		if f.r.equal(v, x, 0) {
			return true
		}
	}
	return false
}

// length is Python's len().
func length(v any) int {
	switch v := v.(type) {
	case *undefined:
		return 0
	case string:
		return utf8.RuneCountInString(v)
	case *List:
		return len(v.Items)
	case Tuple:
		return len(v)
	case *Dict:
		return v.Len()
	}
	fail("a value of type %s has no length", typeName(v))
	return 0
}

func compared(f *frame, op string, left, right any) bool {
	switch op {
	case "==":
		return f.r.equal(left, right, 0)
	case "!=":
		return !f.r.equal(left, right, 0)
	case "in":
		return contains(f, left, right)
	case "not in":
		return !contains(f, left, right)
	case "<":
		return f.r.order(left, right) < 0
	case "<=":
		return f.r.order(left, right) <= 0
	case ">":
		return f.r.order(left, right) > 0
	}
	return f.r.order(left, right) >= 0
}
