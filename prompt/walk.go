package prompt

import "github.com/warmpath/warmpath/prompt/jsonscan"

// body scans a whole body.
func (s *scan) body(body []byte) error {
	c := &s.cur
	c.Reset(body)
	first := c.Next()
	switch {
	case first == jsonscan.Bad && c.Nothing():
		return ErrEmpty
	case first == jsonscan.Object:
		s.insertAt = c.At().End
		for c.Next() == jsonscan.Key {
			s.members++
			if !s.member() {
				return c.Err()
			}
		}
	case !c.Skip(first):
		return c.Err()
	}
	if c.Err() == nil {
		c.Next()
	}
	if err := c.Err(); err != nil {
		return err
	}
	if first != jsonscan.Object {
		return ErrNotObject
	}
	return nil
}

// name is the last key, decoded; nil when it is longer than any known one. It is valid until the next key.
func (s *scan) name() []byte {
	raw, plain := s.cur.Raw()
	if plain {
		return raw
	}
	if len(raw) > 6*maxNameBytes { // every byte written as \u00xx
		return nil
	}
	out := jsonscan.AppendDecoded(s.keyBuf[:0], raw)
	if len(out) > maxNameBytes {
		return nil
	}
	return out
}

// member reads one member of the body; its key is the last token. It returns false if the body is invalid.
func (s *scan) member() bool {
	name := s.name()
	f := findField(name)
	if f == numFields {
		s.noteFolded(name)
	}
	watched := s.parser.watch(name, &s.ids)
	scope, taped := noScope, false
	if s.chain != nil {
		scope, taped = findScope(s.api, name), watched.subs == 0 && f < numFields && f.isTaped(s.api)
	}
	v, ok := s.value(f, taped, watched.subs)
	if !ok {
		return false
	}
	v.At.End = s.cur.At().End
	if f < numFields {
		s.keepEarlier(f)
		s.fields[f] = v
		if lumpOf(f) >= 0 {
			s.amounts[f] = amount{text: v.At.Len()}
		}
	}
	if scope != noScope {
		s.chain.scope[scope] = v
	}
	if watched.self >= 0 {
		s.ids[watched.self] = v
	}
	return v.Kind != jsonscan.Bad
}

// value reads a member's value, which goes onto the tape if taped is set. watched are the members of it whose ids are
// watched. ok is false if the body is invalid.
func (s *scan) value(f field, taped bool, watched uint32) (v jsonscan.Value, ok bool) {
	c := &s.cur
	if taped && f == s.api.mainField() {
		v, s.amounts[f], ok = s.main(f)
		return v, ok
	}
	kind, skipped := s.first(f, taped)
	v = jsonscan.Value{At: c.At(), Kind: kind}
	ok = true
	switch {
	case skipped:
	case taped:
		s.amounts[f], ok = s.record(f, kind)
	case f == fPromptTokenIDs && s.api == Chat:
		s.amounts[f], ok = s.tokenIDs(kind)
	case f < numFields && f.hasText(s.api):
		s.amounts[f], ok = s.text(kind)
	case kind == jsonscan.Object && (watched != 0 || hasSubs(f)):
		if f < numFields {
			s.forgetSubs(f)
		}
		ok = s.object(f, watched)
	default:
		if hasSubs(f) {
			s.forgetSubs(f)
		}
		ok = c.Skip(kind)
	}
	return v, ok
}

// keepEarlier records an earlier occurrence of a member: setting it sets all.
func (s *scan) keepEarlier(f field) {
	switch {
	case f >= numEditable || s.fields[f].Kind == jsonscan.Bad:
	case len(s.earlier) == maxEarlier:
		s.crowded = true
	default:
		s.earlier = append(s.earlier, occurrence{f, s.fields[f].At})
	}
}

// first reads the first token of a member's value. A large value that is recognised is skipped.
func (s *scan) first(f field, taped bool) (kind jsonscan.Kind, skipped bool) {
	c := &s.cur
	if !taped {
		return c.Next(), false
	}
	if n := lumpOf(f); n >= 0 {
		c.Peek()
		length := 0
		s.chain.lumps[n], length = s.mem.knowsValue(c.Data()[c.Pos():])
		if s.chain.lumpKnown[n] = length > 0; length > 0 {
			return c.Jump(length), true
		}
	}
	c.Out = &s.chain.tape.text
	return c.Next(), false
}

// hasSubs reports whether members of the top-level object f are known.
func hasSubs(f field) bool { return f == fStreamOptions || f == fSamplingParams || f == fOptions }

// forgetSubs drops the members of an earlier occurrence of f.
func (s *scan) forgetSubs(f field) {
	switch f {
	case fStreamOptions:
		s.subs[sIncludeUsage] = jsonscan.Value{}
		s.usageInsertAt, s.usageFields = 0, 0
	case fSamplingParams:
		s.subs[sMaxNewTokens], s.subs[sSamplingN] = jsonscan.Value{}, jsonscan.Value{}
	case fOptions:
		s.subs[sNumPredict], s.subs[sNumCtx] = jsonscan.Value{}, jsonscan.Value{}
	}
}

// object reads the members of the top-level object f, whose opening brace is the last token.
func (s *scan) object(f field, watched uint32) bool {
	c := &s.cur
	if f == fStreamOptions {
		s.usageInsertAt = c.At().End
	}
	for {
		switch c.Next() {
		case jsonscan.ObjectEnd:
			return true
		case jsonscan.Bad:
			return false
		}
		name := s.name()
		sub := findSub(f, name)
		id := s.parser.watchSub(watched, name)
		kind := c.Next()
		v := jsonscan.Value{At: c.At(), Kind: kind}
		if !c.Skip(kind) {
			return false
		}
		v.At.End = c.At().End
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
// in nested arrays only.
func (s *scan) text(kind jsonscan.Kind) (amount, bool) {
	c := &s.cur
	var a amount
	objects, floor := 0, c.Depth()
	for k := kind; ; k = c.Next() {
		switch k {
		case jsonscan.Bad:
			return a, false
		case jsonscan.String:
			a.text += c.TextLen()
		case jsonscan.Number:
			if objects == 0 && kind == jsonscan.Array {
				a.ids++
			}
		case jsonscan.Object:
			objects++
		case jsonscan.ObjectEnd:
			objects--
		case jsonscan.Key:
			if !s.part(&a) {
				return a, false
			}
		}
		if c.Depth() < floor || (kind != jsonscan.Object && kind != jsonscan.Array) {
			return a, true
		}
	}
}

// tokenIDs counts the token ids beside a chat's messages; the list begins with the last token.
func (s *scan) tokenIDs(kind jsonscan.Kind) (a amount, ok bool) {
	c := &s.cur
	s.badIDs = kind != jsonscan.Array && kind != jsonscan.Null
	if kind != jsonscan.Array {
		return a, c.Skip(kind)
	}
	for {
		switch kind = c.Next(); kind {
		case jsonscan.ArrayEnd:
			return a, true
		case jsonscan.Number:
			s.badIDs = s.badIDs || !isTokenID(c.Token())
			a.ids++
		default:
			s.badIDs = true
			if !c.Skip(kind) {
				return a, false
			}
		}
	}
}

// isTokenID reports whether a number is a non-negative integer.
func isTokenID(number []byte) bool {
	for _, b := range number {
		if b < '0' || b > '9' {
			return false
		}
	}
	return true
}

// part reads one member of an object within prompt text; its key is the last token. Simple values are skipped here; a
// container with prompt text is left to text.
func (s *scan) part(a *amount) bool {
	c := &s.cur
	name := s.name()
	if isMedia(name) {
		return c.Skip(c.Next())
	}
	if string(name) != "input" && string(name) != "arguments" {
		return true // text reads the value next
	}
	// A tool call's arguments enter the prompt as JSON.
	kind := c.Next()
	from := c.At().Start
	if !c.Skip(kind) {
		return false
	}
	if kind == jsonscan.String {
		a.text += c.TextLen()
	} else {
		a.text += c.At().End - from
	}
	return true
}
