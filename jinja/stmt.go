package jinja

// body reads statements up to a block that begins with one of the names in ends, which it also reads, or up to the end
// of the template.
func (p *parser) body(ends ...string) ([]stmt, string) {
	p.enter()
	defer p.leave()
	var out []stmt
	for {
		switch t := p.next(); t.kind {
		case tokEOF:
			if len(ends) > 0 {
				p.fail("a block is not closed by %s", ends[len(ends)-1])
			}
			return out, ""
		case tokData:
			out = append(out, &text{t.text})
		case tokVarBegin:
			out = append(out, &output{p.tuple(false)})
			p.expect(tokVarEnd, "}}")
		case tokBlockBegin:
			if p.isName(ends...) {
				return out, p.next().text
			}
			if s := p.statement(); s != nil {
				out = append(out, s)
			}
		}
	}
}

// block reads a body that ends with end, its tag included.
func (p *parser) block(end string) []stmt {
	p.endTag()
	body, _ := p.body(end)
	p.endTag()
	return body
}

func (p *parser) statement() stmt {
	switch word := p.expectName(); word {
	case "if":
		return p.ifStmt()
	case "for":
		return p.forStmt()
	case "set":
		return p.setStmt()
	case "macro":
		m := &macroStmt{name: p.expectName()}
		p.macro(m, "endmacro")
		return m
	case "call":
		block := &macroStmt{name: "caller"}
		if p.isOp("(") {
			p.signature(block)
		}
		c, ok := p.expression(true).(*call)
		if !ok {
			p.fail("call needs a call")
		}
		block.body = p.loopless("endcall")
		return &callStmt{call: c, block: block}
	case "filter":
		filters := p.filters(nil)
		return &filterStmt{filters: filters, body: p.block("endfilter")}
	case "with":
		return p.withStmt()
	case "generation":
		return &scopeStmt{body: p.block("endgeneration")}
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%s outside of a loop", word)
		}
		p.endTag()
		if word == "break" {
			return &leave{breakLoop}
		}
		return &leave{continueLoop}
	default:
		p.fail("the statement %q is not supported", word)
		return nil
	}
}

// loopless is block for a body from which break and continue cannot reach an outer loop.
func (p *parser) loopless(end string) []stmt {
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	return p.block(end)
}

func (p *parser) ifStmt() stmt {
	out := &ifStmt{}
	for {
		out.tests = append(out.tests, p.tuple(false))
		p.endTag()
		body, end := p.body("elif", "else", "endif")
		out.bodies = append(out.bodies, body)
		switch end {
		case "elif":
			continue
		case "else":
			p.endTag()
			out.no, _ = p.body("endif")
		}
		p.endTag()
		return out
	}
}

func (p *parser) forStmt() stmt {
	out := &forStmt{}
	out.targets, out.apart = p.loopTargets()
	if !p.skipName("in") {
		p.fail("expected in, not %q", p.peek().text)
	}
	out.over = p.tuple(true)
	if p.skipName("if") {
		out.cond = p.expression(true)
	}
	if p.isName("recursive") {
		p.fail("recursive loops are not supported")
	}
	p.endTag()
	p.loops++
	body, end := p.body("else", "endfor")
	p.loops--
	out.body = body
	if end == "else" {
		p.endTag()
		out.no, _ = p.body("endfor")
	}
	p.endTag()
	return out
}

// loopTargets reads "a", "a, b" or "(a, b)".
func (p *parser) loopTargets() ([]string, bool) {
	paren := p.skipOp("(")
	names := []string{p.expectName()}
	apart := false
	for p.skipOp(",") {
		apart = true
		if p.isName("in") || p.isOp(")") {
			break
		}
		names = append(names, p.expectName())
	}
	if paren {
		p.expectOp(")")
	}
	return names, apart
}

func (p *parser) target() target {
	t := target{name: p.expectName()}
	if p.skipOp(".") {
		t.field = p.expectName()
	}
	return t
}

func (p *parser) setStmt() stmt {
	targets := []target{p.target()}
	apart := false
	for p.skipOp(",") {
		apart = true
		if p.isOp("=") {
			break
		}
		targets = append(targets, p.target())
	}
	if p.skipOp("=") {
		s := &setStmt{targets: targets, apart: apart, value: p.tuple(false)}
		p.endTag()
		return s
	}
	if apart {
		p.fail("expected =, not %q", p.peek().text)
	}
	s := &setBlock{target: targets[0]}
	if p.skipOp("|") {
		s.filters = p.filters(nil)
	}
	s.body = p.block("endset")
	return s
}

// macro reads the rest of a macro.
func (p *parser) macro(m *macroStmt, end string) {
	if !p.isOp("(") {
		p.fail("expected (, not %q", p.peek().text)
	}
	p.signature(m)
	m.body = p.loopless(end)
}

func (p *parser) signature(m *macroStmt) {
	p.expectOp("(")
	for !p.skipOp(")") {
		if len(m.params) > 0 {
			p.expectOp(",")
		}
		m.params = append(m.params, p.expectName())
		var value expr
		if p.skipOp("=") {
			value = p.expression(true)
		} else if n := len(m.defaults); n > 0 && m.defaults[n-1] != nil {
			p.fail("a parameter without a default follows one that has one")
		}
		m.defaults = append(m.defaults, value)
	}
}

func (p *parser) withStmt() stmt {
	out := &withStmt{}
	for p.peek().kind != tokBlockEnd {
		if len(out.names) > 0 {
			p.expectOp(",")
		}
		out.names = append(out.names, p.expectName())
		p.expectOp("=")
		out.values = append(out.values, p.expression(true))
	}
	out.body = p.block("endwith")
	return out
}
