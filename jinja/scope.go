package jinja

// filterFunc is a filter: x | f.
type filterFunc func(f *frame, v any, a *args) any

// testFunc is a test: x is f.
type testFunc func(f *frame, v any, a *args) bool

// library has the known filters and tests, by name. It is immutable.
type library struct {
	filters map[string]filterFunc
	tests   map[string]testFunc
}

// frame is a scope: its variables, and the enclosing scope.
type frame struct {
	r      *rendering
	known  *library
	vars   map[string]any
	around *frame
	loops  int // enclosing loops, for loop.depth
}

func (f *frame) inner() *frame {
	return &frame{r: f.r, known: f.known, vars: map[string]any{}, around: f, loops: f.loops}
}

func (f *frame) lookup(name string) any {
	for ; f != nil; f = f.around {
		if v, ok := f.vars[name]; ok {
			return v
		}
	}
	return &undefined{name}
}

// filter calls a filter by name.
func (f *frame) filter(name string, v any, a *args) any {
	fn, ok := f.known.filters[name]
	if !ok {
		fail("the filter %q is not supported", name)
	}
	f.r.spend(1)
	out := fn(f, v, a)
	a.done()
	return out
}

// test calls a test by name.
func (f *frame) test(name string, v any, a *args) bool {
	fn, ok := f.known.tests[name]
	if !ok {
		fail("the test %q is not supported", name)
	}
	out := fn(f, v, a)
	a.done()
	return out
}
