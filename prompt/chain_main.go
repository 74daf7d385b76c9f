package prompt

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// The main field of a body, its messages or its text, is converted to canonical form while it is scanned: message by
// message, and text directly in place if the order of members allows. Only what cannot be written yet goes onto the
// tape; a message leaves the tape unchanged.

// front is the canonical form of what precedes the main field: the system part of APIs with a field for it.
type front struct {
	part   part   // source on the tape; 0 for none yet
	bytes  int    // all of it
	system int    // without the mark that may follow
	media  int    // within it
	hash   uint64 // 0 for no front
}

// main reads the main field, whose key is the last token, as record does for others.
func (s *scan) main(f field) (v jsonscan.Value, a amount, ok bool) {
	c, k := &s.cur, s.chain
	c.Peek()
	start := c.Pos()
	resumed := k.open(s, start)
	if s.api.isPlain() {
		k.straight = start < len(c.Data()) && c.Data()[start] == '"'
		if k.straight {
			return s.plainMain(start)
		}
		c.Out = &k.tape.text
		kind := c.Next()
		v = jsonscan.Value{At: c.At(), Kind: kind}
		a, ok = s.record(f, kind)
		return v, a, ok
	}
	c.Out = &k.tape.text
	k.tape.open, k.tape.ids = -1, false
	k.Prompts = 1
	kind := c.Next()
	v = jsonscan.Value{At: c.At(), Kind: kind}
	if kind == jsonscan.Array {
		if resumed {
			c.Resume(k.known.raw)
			a.text = k.known.text
		}
		ok = s.mainArray(&a)
	} else {
		ok = s.mainMessage(kind, &a, false)
	}
	c.Out = nil
	return v, a, ok
}

// mainArray reads the rest of an array of messages.
func (s *scan) mainArray(a *amount) bool {
	c, k := &s.cur, s.chain
	for {
		switch kind := c.Next(); kind {
		case jsonscan.ArrayEnd:
			return true
		default:
			if !s.mainMessage(kind, a, true) || k.crowded() {
				return false
			}
			if k.noting && a.ids == 0 {
				k.boundary(c.Pos(), a.text)
			}
		}
	}
}

// mainMessage reads one message, given its first token.
func (s *scan) mainMessage(kind jsonscan.Kind, a *amount, ids bool) bool {
	k := s.chain
	t := &k.tape
	tokens, text := len(t.tokens), len(t.text)
	if kind == jsonscan.String {
		text = s.cur.OutFrom
	}
	written := len(k.text)
	if !s.recordValue(kind, a, ids, tokens) {
		return false
	}
	if len(k.text) == written { // else it is in place already
		k.message(uint32(tokens))
	}
	t.tokens, t.text, t.open, t.ids = t.tokens[:tokens], t.text[:text], -1, false
	return true
}

// keyOfContent is the number of tokens of a message up to its content's key, if only its role precedes that.
const keyOfContent = 4

// straight writes a message in place while decoding its content, if it has exactly a role and a string content, in this
// order. The content's key is the last token. Otherwise the message continues normally, unless ok is false.
func (s *scan) straight(message int, a *amount) (done, ok bool) {
	c, k := &s.cur, s.chain
	t := &k.tape
	role := uint32(message) + 2
	if t.tokens[message].kind != jsonscan.Object || t.tokens[role].kind != jsonscan.String ||
		string(t.content(role-1)) != "role" || c.Peek() != '"' {
		return false, true
	}
	start := len(k.text)
	head := k.header(t.content(role))
	c.Out = &k.text
	kind := c.Next()
	c.Out = &t.text
	if kind == jsonscan.Bad {
		return false, false
	}
	a.text += c.TextLen()
	if c.Peek() == '}' {
		c.Next()
		k.endMessage(start, roleNamed(t.content(role)))
		return true, true
	}
	from := len(t.text)
	t.text = append(t.text, k.text[head:]...)
	k.text = k.text[:start]
	t.push(jsonscan.String, from)
	return false, true
}

// plainMain reads a prompt that is one string.
func (s *scan) plainMain(start int) (v jsonscan.Value, a amount, ok bool) {
	c, k := &s.cur, s.chain
	k.cut.At, k.cut.From, k.cut.Lost, k.cut.Found = start, k.known.raw, k.known.lost, k.cut.Found[:0]
	if k.noting {
		c.Cut = &k.cut
	}
	c.Out = &k.text
	kind := c.Next()
	c.Cut, c.Out = nil, nil
	if kind == jsonscan.Bad {
		return v, a, false
	}
	for _, at := range k.cut.Found {
		k.note(stop{raw: at.Raw, bytes: k.base + at.Out, marks: len(k.Marks), lost: at.Lost})
	}
	return jsonscan.Value{At: c.At(), Kind: kind}, amount{text: c.TextLen()}, true
}

// open starts the main field, whose value is at an offset, and drops an earlier one. It continues from the known part
// of the body, and reports that, unless that part is about another value.
func (c *Chain) open(s *scan, start int) (resumed bool) {
	c.text, c.stops, c.filled, c.chunkEnd = c.text[:0], c.stops[:0], 0, 0
	c.mainAt = start
	at := c.frontPart(s.api)
	c.front = c.composeFront(s.api, at)
	left := len(s.cur.Data()) - start
	if k := &c.known; k.raw > 0 && k.start == start && (at == 0 || k.front == c.front.hash) &&
		k.raw <= len(s.cur.Data()) {
		c.roomFor(left + start - k.raw + len(k.tail))
		c.text, c.base = append(c.text[:0], k.tail...), k.bytes-len(k.tail)
		c.Media, c.sampled, c.wasHashed = k.media, k.kinds, k.marks
		c.front.hash, c.pending, c.resumed = k.front, false, true
		return true
	}
	c.roomFor(left)
	c.known.raw, c.base, c.Media, c.wasHashed, c.resumed = 0, 0, 0, 0, false
	c.Blocks, c.Marks, c.sampled = c.Blocks[:0], c.Marks[:0], TextKinds{}
	c.pending = at == 0 && s.api.frontField() != numFields
	if n := c.front.system; n > 0 {
		c.Marks = append(c.Marks, Mark{Bytes: n, Role: System, Own: xxh3.Hash(c.text[:n])})
	}
	return false
}

// frontPart is the source of the front on the tape; 0 for none yet.
func (c *Chain) frontPart(api API) part {
	if f := api.frontField(); f != numFields {
		return c.tape.parts[f]
	}
	return 0
}

// roomFor allocates room for the text of this many raw bytes, unless they are so many that most must be media.
func (c *Chain) roomFor(raw int) { c.text = slices.Grow(c.text, min(raw, maxKeep/2)) }

// composeFront appends the front to c.text. Its media are removed from c.Media.
func (c *Chain) composeFront(api API, at part) front {
	f := front{part: at}
	if at == 0 {
		return f
	}
	from, media := len(c.text), c.Media
	head := c.header([]byte("system"))
	c.system(uint32(at - 1))
	f.media, c.Media = c.Media-media, media
	if len(c.text) == head {
		c.text = c.text[:from]
		return f
	}
	f.system = len(c.text) - from
	if api == OllamaGenerate {
		c.text = append(c.text, markRole, markRoleEnd)
	}
	f.bytes = len(c.text) - from
	f.hash = xxh3.HashSeed(c.text[from:], rootText) | 1
	return f
}

// settleFront makes sure that the front of the whole body precedes the rest. It returns false if the known part had
// another front, and everything must be redone without it.
func (c *Chain) settleFront(api API) bool {
	at := c.frontPart(api)
	if at == c.front.part && (at != 0 || c.front.hash == 0) {
		return true
	}
	end := len(c.text)
	f := c.composeFront(api, at)
	switch {
	case f.hash == c.front.hash:
		c.text = c.text[:end]
	case c.resumed:
		return false
	default:
		c.moveFront(end, f)
	}
	c.front = f
	return true
}

// moveFront moves the new front from the end of c.text to the place of the old one.
func (c *Chain) moveFront(end int, f front) {
	from := len(c.tape.text)
	c.tape.text = append(c.tape.text, c.text[end:]...)
	by, marks := f.bytes-c.front.bytes, 0
	if c.front.system > 0 {
		c.Marks = slices.Delete(c.Marks, 0, 1)
		marks--
	}
	for i := range c.Marks {
		c.Marks[i].Bytes += by
	}
	if f.system > 0 {
		c.Marks = slices.Insert(c.Marks, 0, Mark{
			Bytes: f.system, Role: System, Own: xxh3.Hash(c.tape.text[from : from+f.system]),
		})
		marks++
	}
	for i := range c.stops {
		c.stops[i].bytes += by
		c.stops[i].marks += marks
	}
	c.text = slices.Replace(c.text[:end], 0, c.front.bytes, c.tape.text[from:]...)
	c.tape.text = c.tape.text[:from]
	c.Blocks, c.sampled, c.filled = c.Blocks[:0], TextKinds{}, 0
}
