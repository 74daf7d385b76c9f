package jinja

import "fmt"

// fault is how parsing and rendering stop; Parse and Render turn it into an error.
type fault struct{ err error }

func fail(format string, args ...any) { panic(fault{fmt.Errorf(format, args...)}) }

// mostDepth bounds nesting: of brackets, of statements, of macros that call each other, of values.
const mostDepth = 200

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
