package jinja

import (
	"math/big"
)

// Values are Python's: nil is None; bool, int, *big.Int (beyond 64 bits), float64 and string are as in Go; *List and
// Tuple are sequences; *Dict is an ordered dictionary. Templates also have undefined, namespaces, functions, methods
// and loops.

// List is a Python list. It must not be changed once a template has it.
type List struct{ Items []any }

// Tuple is a Python tuple.
type Tuple []any

// Dict is a Python dict: its keys in order of insertion. It must not be changed once a template has it.
type Dict struct {
	keys   []any
	values []any
	at     map[any]int // by canonical key
}

// NewDict returns an empty dictionary.
func NewDict() *Dict { return &Dict{at: map[any]int{}} }

// Len is the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// At is the i-th key and its value.
func (d *Dict) At(i int) (key, value any) { return d.keys[i], d.values[i] }

// Get is the value of a key.
func (d *Dict) Get(key any) (any, bool) {
	i, ok := d.at[hash(key)]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// Set gives a key a value; a new key comes last. It panics for an unhashable key (a list, a dictionary), which JSON
// cannot have.
func (d *Dict) Set(key, value any) {
	h := hash(key)
	if i, ok := d.at[h]; ok {
		d.values[i] = value
		return
	}
	d.at[h] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, value)
}

// tupleKey is a tuple as a map key.
type tupleKey struct{ text string }

// hash is the canonical form of a key: equal numbers are one key, as in Python.
func hash(key any) any {
	switch k := key.(type) {
	case nil, string:
		return k
	case bool:
		if k {
			return 1
		}
		return 0
	case int:
		return k
	case float64:
		if n := int(k); float64(n) == k {
			return n
		}
		return k
	case *big.Int:
		return tupleKey{k.String()}
	case Tuple:
		for _, v := range k {
			if _, ok := v.(Tuple); ok || len(k) > mostDepth {
				fail("a tuple of tuples, or a long one, cannot be a key")
			}
			hash(v)
		}
		return tupleKey{(*rendering)(nil).repr(k, 0)}
	}
	fail("a value of type %s cannot be a key", typeName(key))
	return nil
}

// undefined is a missing value. It prints as nothing, and other operations are errors.
type undefined struct{ what string }

// namespace is the only value that a template can change.
type namespace struct{ vars map[string]any }

// looping is the variable loop.
type looping struct {
	items         []any
	index0, depth int
	changed       any
	seen          bool
}

// whole is an int, or a bool as an int.
func whole(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// typeName is the name of a Python type.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		return "list"
	case Tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case *undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *looping:
		return "LoopContext"
	}
	return "function"
}

// truth is Python's bool().
func truth(v any) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return len(v.Items) > 0
	case Tuple:
		return len(v) > 0
	case *Dict:
		return v.Len() > 0
	}
	return true
}

// defined rejects an undefined value.
func defined(v any) any {
	if u, ok := v.(*undefined); ok {
		fail("%s is undefined", u.what)
	}
	return v
}

func sequence(v any) ([]any, bool) {
	switch v := v.(type) {
	case *List:
		return v.Items, true
	case Tuple:
		return v, true
	}
	return nil, false
}

func isUndefined(v any) bool {
	_, ok := v.(*undefined)
	return ok
}

func oneOrMore(v any) []any {
	if t, ok := v.(Tuple); ok {
		return t
	}
	return []any{v}
}
