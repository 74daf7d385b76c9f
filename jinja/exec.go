package jinja

import "strings"

func run(f *frame, body []stmt) flow {
	for _, s := range body {
		f.r.spend(1)
		if how := s.exec(f); how != onward {
			return how
		}
	}
	return onward
}

// captured is the output of a body.
func captured(f *frame, body []stmt) string {
	was := f.r.out
	f.r.out = &strings.Builder{}
	f.r.enter()
	run(f, body)
	f.r.leave()
	text := f.r.out.String()
	f.r.out = was
	return text
}

func (s *text) exec(f *frame) flow {
	f.r.write(s.text)
	return onward
}

func (s *output) exec(f *frame) flow {
	f.r.write(f.r.str(s.of.eval(f)))
	return onward
}

func (s *leave) exec(*frame) flow { return s.how }

func (s *ifStmt) exec(f *frame) flow {
	f.r.enter()
	defer f.r.leave()
	for i, test := range s.tests {
		if truth(test.eval(f)) {
			return run(f, s.bodies[i])
		}
	}
	return run(f, s.no)
}

func (s *forStmt) exec(f *frame) flow {
	f.r.enter()
	defer f.r.leave()
	items := iterate(f, s.over.eval(f))
	f.r.spend(len(items))
	if s.cond != nil {
		var some []any
		for _, v := range items {
			f.r.spend(0)
			inner := f.inner()
			s.bind(inner, v)
			if truth(s.cond.eval(inner)) {
				some = append(some, v)
			}
		}
		items = some
	}
	if len(items) == 0 {
		return run(f.inner(), s.no)
	}
	l := &looping{items: items, depth: f.loops}
	for i, v := range items {
		f.r.spend(0)
		l.index0 = i
		inner := f.inner()
		inner.loops++
		inner.vars["loop"] = l
		s.bind(inner, v)
		if run(inner, s.body) == breakLoop {
			break
		}
	}
	return onward
}

func (s *forStmt) bind(f *frame, v any) {
	if !s.apart {
		f.vars[s.targets[0]] = v
		return
	}
	for i, x := range takenApart(f, v, len(s.targets)) {
		f.vars[s.targets[i]] = x
	}
}

func (s *setStmt) exec(f *frame) flow {
	v := s.value.eval(f)
	if !s.apart {
		s.targets[0].assign(f, v)
		return onward
	}
	for i, x := range takenApart(f, v, len(s.targets)) {
		s.targets[i].assign(f, x)
	}
	return onward
}

func (t *target) assign(f *frame, v any) {
	if t.field == "" {
		f.vars[t.name] = v
		return
	}
	ns, ok := f.lookup(t.name).(*namespace)
	if !ok {
		fail("%s is no namespace", t.name)
	}
	ns.vars[t.field] = v
}

func (s *setBlock) exec(f *frame) flow {
	s.target.assign(f, filterAll(f, s.filters, captured(f.inner(), s.body)))
	return onward
}

func (s *filterStmt) exec(f *frame) flow {
	f.r.write(f.r.str(filterAll(f, s.filters, captured(f.inner(), s.body))))
	return onward
}

func filterAll(f *frame, filters []*filter, v any) any {
	for _, fl := range filters {
		v = f.filter(fl.name, v, fl.args.eval(f, fl.name))
	}
	return v
}

func (s *withStmt) exec(f *frame) flow {
	inner := f.inner()
	for i, name := range s.names {
		inner.vars[name] = s.values[i].eval(f)
	}
	f.r.enter()
	defer f.r.leave()
	return run(inner, s.body)
}

func (s *scopeStmt) exec(f *frame) flow {
	f.r.enter()
	defer f.r.leave()
	return run(f.inner(), s.body)
}

func (s *macroStmt) exec(f *frame) flow {
	f.vars[s.name] = s.function(f)
	return onward
}

// function is a macro as a callable: it sees the scope of its definition.
func (s *macroStmt) function(around *frame) *function {
	return &function{name: s.name, call: func(f *frame, a *args) any {
		inner := around.inner()
		inner.loops = 0
		caller, called := a.keyword("caller")
		for i, param := range s.params {
			v, ok := a.take(param)
			if !ok {
				v = &undefined{param}
				if s.defaults[i] != nil {
					v = s.defaults[i].eval(inner)
				}
			}
			inner.vars[param] = v
		}
		if called {
			inner.vars["caller"] = caller
		}
		a.done()
		return captured(inner, s.body)
	}}
}

func (s *callStmt) exec(f *frame) flow {
	fn, ok := s.call.fn.eval(f).(*function)
	if !ok {
		fail("call needs a macro")
	}
	a := s.call.args.eval(f, fn.name)
	a.names = append(a.names, "caller")
	a.keywords = append(a.keywords, s.block.function(f))
	f.r.write(f.r.str(fn.call(f, a)))
	return onward
}
