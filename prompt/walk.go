package prompt

// maxNameBytes is the longest member name the router looks for, decoded. A longer one cannot match.
const maxNameBytes = 128

// body scans a whole body.
func (s *scan) body(body []byte) error {
	c := &s.cur
	c.Reset(body)
	first := c.Next()
	switch {
	case first == Bad && c.pos >= len(body) && c.want == "a value":
		return ErrEmpty
	case first == Object:
		s.insertAt = c.At().End
		for c.Next() == Key {
			s.members++
			if !s.member() {
				return c.Err()
			}
		}
	case !c.Skip(first):
		return c.Err()
	}
	if c.expect != expectNothing {
		c.Next()
	}
	if err := c.Err(); err != nil {
		return err
	}
	if first != Object {
		return ErrNotObject
	}
	return nil
}

// name is the last key, decoded; nil when it is too long to be one of ours. It is valid until the next key.
func (s *scan) name() []byte {
	raw, plain := s.cur.Raw()
	if plain {
		return raw
	}
	if len(raw) > 6*maxNameBytes { // every byte written as \u00xx
		return nil
	}
	out := appendDecoded(s.keyBuf[:0], raw)
	if len(out) > maxNameBytes {
		return nil
	}
	return out
}

// member takes in one member of the body; its key is the last token. False: the body is bad.
func (s *scan) member() bool {
	c := &s.cur
	name := s.name()
	f := findField(name)
	watched := s.parser.watch(name, &s.ids)
	scope, taped := noScope, false
	var v value
	ok := true
	if s.chain != nil {
		scope, taped = findScope(s.api, name), watched.subs == 0 && f < numFields && f.isTaped(s.api)
	}
	inMain := taped && f == s.api.mainField()
	kind, skipped := Bad, false
	if !inMain {
		kind, skipped = s.first(f, taped)
		v = value{at: c.At(), kind: kind}
	}
	switch {
	case inMain:
		v, s.amounts[f], ok = s.main(f)
		kind = v.kind
	case skipped:
	case taped:
		s.amounts[f], ok = s.record(f, kind)
	case f < numFields && f.hasText(s.api):
		s.amounts[f], ok = s.text(kind)
	case kind == Object && (watched.subs != 0 || hasSubs(f)):
		if f < numFields {
			s.forgetSubs(f)
		}
		ok = s.object(f, watched.subs)
	default:
		if hasSubs(f) {
			s.forgetSubs(f)
		}
		ok = c.Skip(kind)
	}
	if !ok {
		return false
	}
	v.at.End = c.At().End
	if f < numFields {
		s.keepEarlier(f)
		s.fields[f] = v
		if f.countsWhole() {
			s.amounts[f] = amount{text: v.at.Len()}
		}
	}
	if scope != noScope {
		s.chain.scope[scope] = v
	}
	if watched.self >= 0 {
		s.ids[watched.self] = v
	}
	return kind != Bad
}

// keepEarlier remembers where an earlier occurrence of a member is: what sets it sets all.
func (s *scan) keepEarlier(f field) {
	switch {
	case f >= numEditable || s.fields[f].kind == Bad:
	case len(s.earlier) == maxEarlier:
		s.crowded = true
	default:
		s.earlier = append(s.earlier, occurrence{f, s.fields[f].at})
	}
}

// first reads the first token of a member's value. A large value that is recognised is skipped as a whole.
func (s *scan) first(f field, taped bool) (kind Kind, skipped bool) {
	c := &s.cur
	if !taped {
		return c.Next(), false
	}
	if n := lumpOf(f); n >= 0 {
		c.peek()
		length := 0
		s.chain.lumps[n], length = s.mem.knowsValue(c.data[c.pos:])
		if s.chain.lumpKnown[n] = length > 0; length > 0 {
			return c.jump(length), true
		}
	}
	c.out = &s.chain.tape.text
	return c.Next(), false
}

// hasSubs reports whether the router knows members of the top-level object f.
func hasSubs(f field) bool { return f == fStreamOptions || f == fSamplingParams || f == fOptions }

// forgetSubs drops what an earlier occurrence of f said.
func (s *scan) forgetSubs(f field) {
	switch f {
	case fStreamOptions:
		s.subs[sIncludeUsage] = value{}
		s.usageInsertAt, s.usageFields = 0, 0
	case fSamplingParams:
		s.subs[sMaxNewTokens], s.subs[sSamplingN] = value{}, value{}
	case fOptions:
		s.subs[sNumPredict] = value{}
	}
}

// object goes through the members of the top-level object f, whose opening brace is the last token.
func (s *scan) object(f field, watched uint32) bool {
	c := &s.cur
	if f == fStreamOptions {
		s.usageInsertAt = c.At().End
	}
	for {
		switch c.Next() {
		case ObjectEnd:
			return true
		case Bad:
			return false
		}
		name := s.name()
		sub := findSub(f, name)
		id := s.parser.watchSub(watched, name)
		kind := c.Next()
		v := value{at: c.At(), kind: kind}
		if !c.Skip(kind) {
			return false
		}
		v.at.End = c.At().End
		if sub < numSubfields {
			s.subs[sub] = v
		}
		if id >= 0 {
			s.ids[id] = v
		}
		if f == fStreamOptions {
			s.usageFields++
		}
	}
}

// text measures the value that starts with the last token: bytes of text in strings, and token ids, which are numbers
// in arrays within arrays only.
func (s *scan) text(kind Kind) (amount, bool) {
	c := &s.cur
	var a amount
	objects, floor := 0, c.depth
	for k := kind; ; k = c.Next() {
		switch k {
		case Bad:
			return a, false
		case String:
			a.text += c.TextLen()
		case Number:
			if objects == 0 && kind == Array {
				a.ids++
			}
		case Object:
			objects++
		case ObjectEnd:
			objects--
		case Key:
			if !s.part(&a) {
				return a, false
			}
		}
		if c.depth < floor || (kind != Object && kind != Array) {
			return a, true
		}
	}
}

// part takes in one member of an object within prompt text; its key is the last token. Values that need no closer look
// are passed here; a container that does is left to text.
func (s *scan) part(a *amount) bool {
	c := &s.cur
	name := s.name()
	if isMedia(name) {
		return c.Skip(c.Next())
	}
	if string(name) != "input" && string(name) != "arguments" {
		return true // the value is the next token of text
	}
	// The arguments of a tool call go into the prompt as JSON.
	kind := c.Next()
	from := c.At().Start
	if !c.Skip(kind) {
		return false
	}
	if kind == String {
		a.text += c.TextLen()
	} else {
		a.text += c.At().End - from
	}
	return true
}
