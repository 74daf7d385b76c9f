package jinja

import (
	"fmt"
	"slices"
)

// parser parses a template (jinja2.parser): tokens here, expressions in expr.go, statements in stmt.go.
type parser struct {
	toks  []token
	i     int
	depth int
	loops int

	known *library
}

func (p *parser) peek() token { return p.toks[p.i] }

func (p *parser) next() token {
	t := p.toks[p.i]
	if t.kind != tokEOF {
		p.i++
	}
	return t
}

// enter begins a construct that can be nested.
func (p *parser) enter() {
	if p.depth++; p.depth > 4*mostDepth {
		p.fail("nested too deep")
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) fail(format string, args ...any) {
	fail("line %d: %s", p.peek().line, fmt.Sprintf(format, args...))
}

func (p *parser) isOp(op string) bool { t := p.peek(); return t.kind == tokOp && t.text == op }

func (p *parser) isName(names ...string) bool {
	t := p.peek()
	return t.kind == tokName && slices.Contains(names, t.text)
}

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.i++
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.i++
		return true
	}
	return false
}

func (p *parser) expectOp(op string) {
	if !p.skipOp(op) {
		p.fail("expected %q, not %q", op, p.peek().text)
	}
}

func (p *parser) expectName() string {
	if p.peek().kind != tokName {
		p.fail("expected a name, not %q", p.peek().text)
	}
	return p.next().text
}

func (p *parser) expect(k kind, what string) {
	if p.next().kind != k {
		p.i--
		p.fail("expected %s, not %q", what, p.peek().text)
	}
}

func (p *parser) endTag() { p.expect(tokBlockEnd, "%}") }
