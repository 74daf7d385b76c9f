package jinja

import (
	"strconv"
	"strings"
)

// attributeOf is v.name: an attribute, or else an item of that name.
func attributeOf(f *frame, v any, name string) any {
	switch v := defined(v).(type) {
	case *Dict:
		if m := dictMethod(v, name); m != nil {
			return m
		}
		if x, ok := v.Get(name); ok {
			return x
		}
	case string:
		if m := stringMethod(v, name); m != nil {
			return m
		}
	case *List, Tuple:
		if m := listMethod(v, name); m != nil {
			return m
		}
	case *namespace:
		if x, ok := v.vars[name]; ok {
			return x
		}
	case *looping:
		if x, ok := v.attribute(f, name); ok {
			return x
		}
	}
	return &undefined{name}
}

// itemOf is v[key]: an item, or else an attribute of that name.
func itemOf(f *frame, v, key any) any {
	switch c := defined(v).(type) {
	case *Dict:
		switch key.(type) {
		case *List, *Dict, *undefined:
			return &undefined{"an item"}
		}
		if x, ok := c.Get(key); ok {
			return x
		}
	case string:
		if i, ok := whole(key); ok {
			runes := []rune(c)
			f.r.spend(len(c))
			if i < 0 {
				i += len(runes)
			}
			if i >= 0 && i < len(runes) {
				return string(runes[i])
			}
		}
	case *List, Tuple:
		items, _ := sequence(c)
		if i, ok := whole(key); ok {
			if i < 0 {
				i += len(items)
			}
			if i >= 0 && i < len(items) {
				return items[i]
			}
		}
	}
	if name, ok := key.(string); ok {
		return attributeOf(f, v, name)
	}
	return &undefined{"an item"}
}

// path resolves a filter's attribute: "a.b", "a.0", or an index; v itself if there is none.
func path(f *frame, v, attr any) any {
	switch attr := attr.(type) {
	case nil:
		return v
	case string:
		for part := range strings.SplitSeq(attr, ".") {
			if i, err := strconv.Atoi(part); err == nil {
				v = itemOf(f, v, i)
			} else {
				v = itemOf(f, v, part)
			}
		}
		return v
	}
	return itemOf(f, v, attr)
}

// attribute is a field of the variable loop.
func (l *looping) attribute(f *frame, name string) (any, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return l.index0 + 1, true
	case "index0":
		return l.index0, true
	case "revindex":
		return n - l.index0, true
	case "revindex0":
		return n - l.index0 - 1, true
	case "first":
		return l.index0 == 0, true
	case "last":
		return l.index0 == n-1, true
	case "length":
		return n, true
	case "depth":
		return l.depth + 1, true
	case "depth0":
		return l.depth, true
	case "previtem":
		if l.index0 == 0 {
			return &undefined{"the item before the first"}, true
		}
		return l.items[l.index0-1], true
	case "nextitem":
		if l.index0 == n-1 {
			return &undefined{"the item after the last"}, true
		}
		return l.items[l.index0+1], true
	case "cycle":
		return &function{name: "cycle", call: func(_ *frame, a *args) any {
			if len(a.positional) == 0 {
				fail("cycle needs an argument")
			}
			return a.positional[l.index0%len(a.positional)]
		}}, true
	case "changed":
		return &function{name: "changed", call: func(_ *frame, a *args) any {
			now := Tuple(a.positional)
			same := l.seen && f.r.equal(l.changed, now, 0)
			l.seen, l.changed = true, now
			return !same
		}}, true
	}
	return nil, false
}
