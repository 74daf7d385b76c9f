package jinja

import "slices"

// args are the arguments of a call. A function takes them one by one and then calls done.
type args struct {
	what       string // name of the callee, for errors
	positional []any
	names      []string
	keywords   []any
	taken      int
}

// take is the next positional argument, or the named keyword argument.
func (a *args) take(name string) (any, bool) {
	if a.taken < len(a.positional) {
		a.taken++
		if slices.Contains(a.names, name) {
			fail("%s got the argument %s twice", a.what, name)
		}
		return a.positional[a.taken-1], true
	}
	if i := slices.Index(a.names, name); i >= 0 {
		v := a.keywords[i]
		a.names = slices.Delete(slices.Clone(a.names), i, i+1)
		a.keywords = slices.Delete(slices.Clone(a.keywords), i, i+1)
		return v, true
	}
	return nil, false
}

// keyword takes a named keyword argument.
func (a *args) keyword(name string) (any, bool) {
	b := args{names: a.names, keywords: a.keywords}
	v, ok := b.take(name)
	a.names, a.keywords = b.names, b.keywords
	return v, ok
}

func (a *args) need(name string) any {
	v, ok := a.take(name)
	if !ok {
		fail("%s needs the argument %s", a.what, name)
	}
	return v
}

func (a *args) or(name string, otherwise any) any {
	if v, ok := a.take(name); ok {
		return v
	}
	return otherwise
}

func (a *args) text(name string) string {
	v := a.need(name)
	s, ok := v.(string)
	if !ok {
		fail("%s: %s must be a text, not %s", a.what, name, typeName(v))
	}
	return s
}

func (a *args) number(name string, otherwise int) int {
	v, ok := a.take(name)
	if !ok {
		return otherwise
	}
	n, ok := whole(v)
	if !ok {
		fail("%s: %s must be a whole number, not %s", a.what, name, typeName(v))
	}
	return n
}

// done rejects arguments that were not taken.
func (a *args) done() {
	if a.taken < len(a.positional) {
		fail("%s got %d arguments, more than it takes", a.what, len(a.positional))
	}
	if len(a.names) > 0 {
		fail("%s has no argument %s", a.what, a.names[0])
	}
}
