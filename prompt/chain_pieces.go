package prompt

import (
	"bytes"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// pieces writes the content of a message, an item or a part.
func (c *Chain) pieces(e *entry) {
	calls := e.args > 0 || e.form == call
	if e.name > 0 && !calls {
		c.named(markName, e.name)
	}
	if e.content > 0 {
		c.content(e.content)
	}
	if e.text > 0 {
		c.content(e.text)
	}
	for m, v := range e.media[:mediaID] {
		if v > 0 {
			c.media(v, m)
		}
	}
	if calls {
		c.call(e)
	}
	if e.function > 0 {
		c.calls(e.function)
	}
	if e.calls > 0 {
		c.calls(e.calls)
	}
}

// content writes a string, a part or a list of parts.
func (c *Chain) content(i uint32) {
	tok := c.tape.tokens[i]
	switch tok.kind {
	case jsonscan.String:
		c.textPiece(c.tape.content(i))
	case jsonscan.Object:
		c.part(i)
	case jsonscan.Array:
		for j := i + 1; j < tok.after; j = c.tape.tokens[j].after {
			c.content(j)
		}
	}
}

// system writes the system field of an API that has one, without attributions.
func (c *Chain) system(i uint32) {
	tok := c.tape.tokens[i]
	if tok.kind != jsonscan.Array {
		c.content(i)
		return
	}
	for j := i + 1; j < tok.after; j = c.tape.tokens[j].after {
		if !c.isAttribution(j) {
			c.content(j)
		}
	}
}

func (c *Chain) isAttribution(i uint32) bool {
	if c.tape.tokens[i].kind != jsonscan.Object {
		return false
	}
	e := c.gather(i)
	return e.text > 0 && c.tape.tokens[e.text].kind == jsonscan.String &&
		bytes.HasPrefix(c.tape.content(e.text), []byte(attribution))
}

// textPiece writes text, separated from text before it. Empty text writes nothing.
func (c *Chain) textPiece(text []byte) {
	if len(text) == 0 {
		return
	}
	if n := len(c.text); n > 0 && c.text[n-1] != markRoleEnd && c.text[n-1] != markResult {
		c.text = append(c.text, markPart)
	}
	c.text = append(c.text, text...)
}

// part writes one part of a content.
func (c *Chain) part(i uint32) {
	e := c.gather(i)
	switch {
	case e.form == thought:
	case !e.known:
		c.other(i)
	case e.form == result:
		c.text = append(c.text, markResult)
		c.pieces(&e)
		c.text = append(c.text, markResultEnd)
	default:
		c.pieces(&e)
	}
}

// calls writes a tool call or a list of them, each with name and arguments or with a function that has them.
func (c *Chain) calls(i uint32) {
	tok := c.tape.tokens[i]
	switch tok.kind {
	case jsonscan.Object:
		e := c.gather(i)
		switch {
		case e.function > 0:
			c.calls(e.function)
		case e.name > 0 || e.args > 0:
			c.call(&e)
		default:
			c.other(i)
		}
	case jsonscan.Array:
		for j := i + 1; j < tok.after; j = c.tape.tokens[j].after {
			c.calls(j)
		}
	}
}

func (c *Chain) call(e *entry) {
	c.named(markCall, e.name)
	c.text = append(c.text, markArgs)
	switch {
	case e.args == 0 || c.tape.tokens[e.args].kind == jsonscan.Null:
	case c.tape.tokens[e.args].kind == jsonscan.String:
		c.text = append(c.text, c.tape.content(e.args)...)
	default:
		c.json(e.args)
	}
}

// named writes a mark and a name.
func (c *Chain) named(mark byte, name uint32) {
	c.text = append(c.text, mark)
	if name > 0 && c.tape.tokens[name].kind == jsonscan.String {
		c.text = append(c.text, c.tape.content(name)...)
	}
}

// other writes a part of unknown kind.
func (c *Chain) other(i uint32) {
	c.text = append(c.text, markOther)
	c.json(i)
}

// media writes the hash of media: of its data, address or id, whichever comes first.
func (c *Chain) media(i uint32, member int) {
	tok := c.tape.tokens[i]
	switch tok.kind {
	case jsonscan.Array:
		for j := i + 1; j < tok.after; j = c.tape.tokens[j].after {
			c.media(j, member)
		}
	case jsonscan.String:
		if tok.from < tok.to {
			c.mediaDigest(xxh3.Hash(c.tape.content(i)))
		}
	case jsonscan.Object:
		e := c.gather(i)
		if e.content > 0 && member == mediaSource { // a document made of parts (Anthropic)
			c.content(e.content)
			return
		}
		for _, v := range e.media {
			if v > 0 && c.tape.tokens[v].kind == jsonscan.String {
				c.mediaDigest(xxh3.Hash(c.tape.content(v)))
				return
			}
		}
		from := len(c.text)
		c.json(i)
		h := xxh3.Hash(c.text[from:])
		c.text = c.text[:from]
		c.mediaDigest(h)
	}
}

func (c *Chain) mediaDigest(h uint64) {
	const hex = "0123456789abcdef"
	c.Media++
	c.text = append(c.text, markMedia)
	for shift := 60; shift >= 0; shift -= 4 {
		c.text = append(c.text, hex[h>>shift&15])
	}
}

// json writes the value at i: compact, members sorted, of duplicates the last. cache_control is ignored.
func (c *Chain) json(i uint32) {
	t := &c.tape
	tok := t.tokens[i]
	switch tok.kind {
	case jsonscan.String, jsonscan.Key:
		c.text = append(c.text, markQuote)
		c.text = append(c.text, t.content(i)...)
		c.text = append(c.text, markQuote)
	case jsonscan.Number, tokenIDs:
		c.text = append(c.text, t.content(i)...)
	case jsonscan.True:
		c.text = append(c.text, "true"...)
	case jsonscan.False:
		c.text = append(c.text, "false"...)
	case jsonscan.Null:
		c.text = append(c.text, "null"...)
	case jsonscan.Array:
		c.text = append(c.text, '[')
		for j := i + 1; j < tok.after; j = t.tokens[j].after {
			if j > i+1 {
				c.text = append(c.text, ',')
			}
			c.json(j)
		}
		c.text = append(c.text, ']')
	case jsonscan.Object:
		c.object(i, tok.after)
	}
}

// object writes the members between the tokens i and end.
func (c *Chain) object(i, end uint32) {
	t := &c.tape
	from := len(c.sort)
	sorted := true
	for j := i + 1; j < end; j = t.tokens[j+1].after {
		c.sort = append(c.sort, j)
		n := len(c.sort)
		sorted = sorted && (n == from+1 || bytes.Compare(t.content(c.sort[n-2]), t.content(j)) < 0)
	}
	if !sorted {
		slices.SortFunc(c.sort[from:], func(a, b uint32) int {
			if order := bytes.Compare(t.content(a), t.content(b)); order != 0 {
				return order
			}
			return int(a) - int(b)
		})
	}
	c.text = append(c.text, '{')
	first := true
	for k := from; k < len(c.sort); k++ { // nested objects use the stack above and restore it
		j := c.sort[k]
		if k+1 < len(c.sort) && bytes.Equal(t.content(j), t.content(c.sort[k+1])) || c.isCacheControl(j) {
			continue
		}
		if !first {
			c.text = append(c.text, ',')
		}
		first = false
		c.json(j)
		c.text = append(c.text, ':')
		c.json(j + 1)
	}
	c.sort = c.sort[:from]
	c.text = append(c.text, '}')
}

func (c *Chain) isCacheControl(key uint32) bool {
	if kind := c.tape.tokens[key+1].kind; kind != jsonscan.Object && kind != jsonscan.Null {
		return false
	}
	return string(c.tape.content(key)) == "cache_control"
}
