package jinja

import "fmt"

// fault is the panic that ends parsing and rendering; Parse and Render turn it into an error.
type fault struct{ err error }

func fail(format string, args ...any) { panic(fault{fmt.Errorf(format, args...)}) }

// mostDepth bounds nesting: of brackets, of statements, of macros that call each other, of values.
const mostDepth = 200

// recovered turns a fault into an error.
func recovered(err *error) {
	switch p := recover().(type) {
	case nil:
	case fault:
		*err = fmt.Errorf("jinja: %w", p.err)
	default:
		panic(p)
	}
}
