package jinja

import (
	"math/big"
	"strconv"
	"strings"
)

// tuple reads an expression, or several separated by commas: a tuple. inLoop means that an if belongs to the loop.
func (p *parser) tuple(inLoop bool) expr {
	first := p.expression(!inLoop)
	if !p.isOp(",") {
		return first
	}
	items := []expr{first}
	for p.skipOp(",") {
		if k := p.peek().kind; k == tokVarEnd || k == tokBlockEnd || p.isOp(")") {
			break
		}
		items = append(items, p.expression(!inLoop))
	}
	return &tupleOf{items}
}

// expression reads an expression, a conditional one too if conditional is true.
func (p *parser) expression(conditional bool) expr {
	p.enter()
	defer p.leave()
	e := p.or()
	for conditional && p.skipName("if") {
		c := &choice{yes: e, test: p.or()}
		if p.skipName("else") {
			c.no = p.expression(true)
		}
		e = c
	}
	return e
}

func (p *parser) or() expr {
	e := p.and()
	for p.skipName("or") {
		e = &logic{left: e, right: p.and()}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for p.skipName("and") {
		e = &logic{and: true, left: e, right: p.not()}
	}
	return e
}

func (p *parser) not() expr {
	if p.skipName("not") {
		p.enter()
		defer p.leave()
		return &negation{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	c := &compare{first: p.sum()}
	for {
		t := p.peek()
		switch {
		case t.kind == tokOp &&
			(t.text == "==" || t.text == "!=" || t.text == "<" || t.text == "<=" || t.text == ">" || t.text == ">="):
			p.i++
			c.ops = append(c.ops, t.text)
		case p.skipName("in"):
			c.ops = append(c.ops, "in")
		case p.isName("not") && p.toks[p.i+1].kind == tokName && p.toks[p.i+1].text == "in":
			p.i += 2
			c.ops = append(c.ops, "not in")
		default:
			if len(c.ops) == 0 {
				return c.first
			}
			return c
		}
		c.rest = append(c.rest, p.sum())
	}
}

func (p *parser) sum() expr {
	e := p.joined()
	for p.isOp("+") || p.isOp("-") {
		e = &binary{op: p.next().text, left: e, right: p.joined()}
	}
	return e
}

func (p *parser) joined() expr {
	parts := []expr{p.product()}
	for p.skipOp("~") {
		parts = append(parts, p.product())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &concat{parts}
}

func (p *parser) product() expr {
	e := p.power()
	for p.isOp("*") || p.isOp("/") || p.isOp("//") || p.isOp("%") {
		e = &binary{op: p.next().text, left: e, right: p.power()}
	}
	return e
}

func (p *parser) power() expr {
	e := p.unary(true)
	for p.skipOp("**") {
		e = &binary{op: "**", left: e, right: p.unary(true)}
	}
	return e
}

func (p *parser) unary(filters bool) expr {
	p.enter()
	defer p.leave()
	var e expr
	switch {
	case p.skipOp("-"):
		e = &sign{minus: true, of: p.unary(false)}
	case p.skipOp("+"):
		e = &sign{of: p.unary(false)}
	default:
		e = p.primary()
	}
	e = p.postfix(e)
	if filters {
		e = p.filtered(e)
	}
	return e
}

func (p *parser) primary() expr {
	switch t := p.next(); t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &constant{true}
		case "false", "False":
			return &constant{false}
		case "none", "None":
			return &constant{nil}
		}
		return &name{t.text}
	case tokString:
		var s strings.Builder
		s.WriteString(t.text)
		for p.peek().kind == tokString {
			s.WriteString(p.next().text)
		}
		return &constant{s.String()}
	case tokInt:
		if n, err := strconv.ParseInt(t.text, 0, strconv.IntSize); err == nil {
			return &constant{int(n)}
		}
		n, ok := new(big.Int).SetString(t.text, 0)
		if !ok {
			p.fail("%q is not a number", t.text)
		}
		return &constant{n}
	case tokFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			p.fail("%q is not a number", t.text)
		}
		return &constant{f}
	case tokOp:
		switch t.text {
		case "(":
			return p.parens()
		case "[":
			return &listOf{p.list("]")}
		case "{":
			return p.dict()
		}
	}
	p.i--
	p.fail("expected an expression, not %q", p.peek().text)
	return nil
}

func (p *parser) parens() expr {
	if p.skipOp(")") {
		return &tupleOf{}
	}
	e := p.tuple(false)
	p.expectOp(")")
	return e
}

// list reads expressions up to a bracket.
func (p *parser) list(end string) []expr {
	var out []expr
	for !p.skipOp(end) {
		if len(out) > 0 {
			p.expectOp(",")
			if p.skipOp(end) {
				break
			}
		}
		out = append(out, p.expression(true))
	}
	return out
}

func (p *parser) dict() expr {
	d := &dictOf{}
	for !p.skipOp("}") {
		if len(d.keys) > 0 {
			p.expectOp(",")
			if p.skipOp("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression(true))
		p.expectOp(":")
		d.values = append(d.values, p.expression(true))
	}
	return d
}

func (p *parser) postfix(e expr) expr {
	for {
		switch {
		case p.skipOp("."):
			if t := p.peek(); t.kind == tokInt {
				p.i++
				n, err := strconv.Atoi(t.text)
				if err != nil {
					p.fail("%q is no place", t.text)
				}
				e = &item{of: e, key: &constant{n}}
				continue
			}
			e = &attribute{of: e, name: p.expectName()}
		case p.skipOp("["):
			e = p.subscript(e)
		case p.isOp("("):
			e = &call{fn: e, args: p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) subscript(of expr) expr {
	var parts [3]expr
	n, colon := 0, false
	for !p.skipOp("]") {
		if p.skipOp(":") {
			colon = true
			if n++; n > 2 {
				p.fail("a slice has three parts at most")
			}
			continue
		}
		if parts[n] != nil {
			p.fail("expected ], not %q", p.peek().text)
		}
		parts[n] = p.expression(true)
	}
	if colon {
		return &slice{of: of, from: parts[0], to: parts[1], step: parts[2]}
	}
	if parts[0] == nil {
		p.fail("there is nothing between the brackets")
	}
	return &item{of: of, key: parts[0]}
}

func (p *parser) arguments() arguments {
	p.expectOp("(")
	var a arguments
	for first := true; !p.skipOp(")"); first = false {
		if !first {
			p.expectOp(",")
			if p.skipOp(")") {
				break
			}
		}
		switch {
		case p.skipOp("**"):
			a.more = p.expression(true)
		case p.skipOp("*"):
			a.rest = p.expression(true)
		case p.peek().kind == tokName && p.toks[p.i+1].kind == tokOp && p.toks[p.i+1].text == "=":
			a.names = append(a.names, p.next().text)
			p.i++
			a.keywords = append(a.keywords, p.expression(true))
		default:
			if len(a.names) > 0 || a.more != nil {
				p.fail("an argument follows one with a name")
			}
			a.positional = append(a.positional, p.expression(true))
		}
	}
	return a
}

// filtered reads the filters and tests after an expression.
func (p *parser) filtered(e expr) expr {
	for {
		switch {
		case p.skipOp("|"):
			e = p.filter(e)
		case p.skipName("is"):
			e = p.test(e)
		case p.isOp("("):
			e = &call{fn: e, args: p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) filter(of expr) *filter {
	f := &filter{name: p.expectName(), of: of}
	if _, ok := p.known.filters[f.name]; !ok {
		p.fail("the filter %q is not supported", f.name)
	}
	if p.isOp("(") {
		f.args = p.arguments()
	}
	return f
}

// filters reads the filters of a block: the first has no | before it.
func (p *parser) filters(of expr) []*filter {
	out := []*filter{p.filter(of)}
	for p.skipOp("|") {
		out = append(out, p.filter(of))
	}
	return out
}

func (p *parser) test(of expr) expr {
	not := p.skipName("not")
	t := &test{name: p.expectName(), of: of}
	if _, ok := p.known.tests[t.name]; !ok {
		p.fail("the test %q is not supported", t.name)
	}
	switch next := p.peek(); {
	case p.isOp("("):
		t.args = p.arguments()
	case next.kind == tokName && !p.isName("else", "or", "and", "is", "if", "in", "not"), next.kind == tokString,
		next.kind == tokInt, next.kind == tokFloat, p.isOp("["), p.isOp("{"):
		t.args.positional = []expr{p.postfix(p.primary())}
	}
	if not {
		return &negation{t}
	}
	return t
}
