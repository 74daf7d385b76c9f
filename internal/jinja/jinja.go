package jinja

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The most that a template may have, in bytes.
const mostSource = 1 << 20

// Budget is the most that one rendering may do.
type Budget struct {
	Steps  int           // statements, calls and items gone through, and one for each 16 bytes that are copied
	Output int           // bytes
	Time   time.Duration // checked now and then
}

// DefaultBudget is enough for chats of megabytes.
var DefaultBudget = Budget{Steps: 10_000_000, Output: 64 << 20, Time: 5 * time.Second}

// ErrBudget is the end of a rendering that would have done more than its Budget allows.
var ErrBudget = errors.New("the template does more than one rendering may")

// Refusal is what a template says by raise_exception.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return "the template refuses: " + r.Text }

// Template is a template that was read. It is immutable, and safe for concurrent use.
type Template struct {
	body    []stmt
	filters map[string]filterFunc
	tests   map[string]testFunc
}

// Parse reads a template. An error names the line and what is not known there.
func Parse(source string) (t *Template, err error) {
	defer recovered(&err)
	if len(source) > mostSource {
		return nil, fmt.Errorf("jinja: the template has more than %d KiB", mostSource>>10)
	}
	t = &Template{filters: filterFuncs(), tests: testFuncs()}
	p := &parser{toks: lex(source), filterTable: t.filters, testTable: t.tests}
	t.body, _ = p.body()
	return t, nil
}

// recovered makes an error of a fault.
func recovered(err *error) {
	switch p := recover().(type) {
	case nil:
	case fault:
		*err = fmt.Errorf("jinja: %w", p.err)
	default:
		panic(p)
	}
}

// Render renders a template with variables, whose values are nil, bool, int, *big.Int, float64, string, *List, Tuple and *Dict. now is the time that strftime_now tells.
func (t *Template) Render(vars map[string]any, now time.Time, most Budget) (text string, err error) {
	defer recovered(&err)
	r := &rendering{t: t, now: now, most: most, steps: most.Steps, until: time.Now().Add(most.Time), out: &strings.Builder{}}
	globals := &frame{r: r, vars: builtins()}
	outer := globals.inner()
	for name, v := range vars {
		outer.vars[name] = v
	}
	run(outer, t.body)
	return r.out.String(), nil
}

// rendering is one rendering of a template. One goroutine uses it.
type rendering struct {
	t     *Template
	now   time.Time
	most  Budget
	until time.Time
	steps int
	depth int
	bytes int // written, here and in what is captured
	out   *strings.Builder
}

// spend takes n bytes' or items' worth of steps.
func (r *rendering) spend(n int) {
	if r == nil {
		return // outside of a rendering, where values are small
	}
	before := r.steps
	r.steps -= 1 + n/16
	if r.steps < 0 || before>>12 != r.steps>>12 && time.Now().After(r.until) {
		panic(fault{ErrBudget})
	}
}

// spendTimes is spend of size things n times.
func (r *rendering) spendTimes(size, n int) {
	if size > 0 && n > r.most.Output/size {
		panic(fault{ErrBudget})
	}
	r.spend(size * max(n, 0))
}

// enter begins something that may hold itself, leave ends it.
func (r *rendering) enter() {
	if r.depth++; r.depth > 4*mostDepth {
		panic(fault{ErrBudget})
	}
}

func (r *rendering) leave() { r.depth-- }

func (r *rendering) write(s string) {
	if r.bytes += len(s); r.bytes > r.most.Output {
		panic(fault{ErrBudget})
	}
	r.spend(len(s))
	r.out.WriteString(s)
}

// filter calls a filter by name.
func (r *rendering) filter(f *frame, name string, v any, a *args) any {
	fn, ok := r.t.filters[name]
	if !ok {
		fail("the filter %q is not supported", name)
	}
	r.spend(1)
	out := fn(f, v, a)
	a.done()
	return out
}

// test calls a test by name.
func (r *rendering) test(f *frame, name string, v any, a *args) bool {
	fn, ok := r.t.tests[name]
	if !ok {
		fail("the test %q is not supported", name)
	}
	out := fn(f, v, a)
	a.done()
	return out
}

// frame is a scope: its variables, and those around it.
type frame struct {
	r      *rendering
	vars   map[string]any
	around *frame
	loops  int // around, for loop.depth
}

func (f *frame) inner() *frame {
	return &frame{r: f.r, vars: map[string]any{}, around: f, loops: f.loops}
}

func (f *frame) lookup(name string) any {
	for ; f != nil; f = f.around {
		if v, ok := f.vars[name]; ok {
			return v
		}
	}
	return &undefined{name}
}
