package prompt

import (
	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// The canonical form. Decoded strings are UTF-8, in which the bytes 0xC1 and 0xF5 to 0xFF never occur; so content can
// forge none of these marks, and no two prompts have one form by accident of what they say.
//
//	message      markRole role markRoleEnd pieces
//	pieces       [markName name] texts, media, calls and results in the order of the body
//	text         itself; markPart before it unless it comes first in its message or result
//	tool call    markCall name markArgs arguments (as they were sent: the text of a string, else JSON)
//	tool result  markResult pieces markResultEnd where it is a part of a message (Anthropic)
//	media        markMedia and 16 hexadecimal digits: the hash of the data or address
//	else         markOther and JSON: parts of types that are not known
//	JSON         compact, members sorted by name, markQuote for quotes, nothing escaped
//
// A prompt that is no chat is its text alone, then markSuffix and the suffix to fill in towards; a prompt of token ids
// is four bytes for each, little end first.
//
// Left out, so that a message looks the same when it comes back in the next turn: ids of calls and items, cache_control,
// status, annotations and signatures, and thoughts (thinking blocks, reasoning items and reasoning_content), which
// clients drop and templates do not render for past turns. Members of messages that are not known are left out too.
const (
	markRole      = 0xFF
	markRoleEnd   = 0xFE
	markPart      = 0xFD
	markCall      = 0xFC
	markArgs      = 0xFB
	markMedia     = 0xFA
	markName      = 0xF9
	markOther     = 0xF8
	markResult    = 0xF7
	markResultEnd = 0xF6
	markQuote     = 0xF5
	markSuffix    = 0xC1
)

// composePlain writes a prompt that is no chat, and ends it. The front is there, and the prompt too if it is one string.
func (c *Chain) composePlain(api API) {
	if c.straight {
		c.Prompts = 1
	} else {
		c.plain(api.mainField())
	}
	switch {
	case api != Generate:
		if i, ok := c.tape.start(fSuffix); ok && c.tape.tokens[i].kind == jsonscan.String && !c.isEmpty(i) {
			c.text = append(append(c.text, markSuffix), c.tape.content(i)...)
		}
	case c.Prompts == 0:
		c.plain(fInputIDs)
	}
	if len(c.text) > 0 {
		c.Marks = append(c.Marks, Mark{Bytes: c.base + len(c.text), Role: OtherRole})
	}
}

// endMessage ends a message that begins at an offset of c.text.
func (c *Chain) endMessage(start int, r Role) {
	c.Marks = append(c.Marks, Mark{Bytes: c.base + len(c.text), Role: r, Own: xxh3.Hash(c.text[start:])})
}

// plain writes a prompt that is no chat: a string, token ids, or a list of either, of which only the first is taken.
func (c *Chain) plain(f field) {
	i, ok := c.tape.start(f)
	if !ok {
		return
	}
	tok := &c.tape.tokens[i]
	if tok.kind == jsonscan.Array {
		first, after := i+1, tok.after
		for j := first; j < after; j = c.tape.tokens[j].after {
			c.Prompts++
		}
		if c.Prompts == 0 {
			return
		}
		i, tok = first, &c.tape.tokens[first]
		if tok.kind == jsonscan.Array && tok.after > first+1 {
			i, tok = first+1, &c.tape.tokens[first+1]
		}
	} else if tok.kind != jsonscan.Null {
		c.Prompts = 1
	}
	switch tok.kind {
	case tokenIDs:
		if len(c.text) == 0 {
			c.root = rootIDs
		}
		c.text = append(c.text, c.tape.content(i)...)
	case jsonscan.String:
		c.text = append(c.text, c.tape.content(i)...)
	case jsonscan.Object:
		c.other(i)
	}
}

// message writes the message at i.
func (c *Chain) message(i uint32) {
	start := len(c.text)
	switch c.tape.tokens[i].kind {
	case jsonscan.String:
		c.header([]byte("user"))
		c.textPiece(c.tape.content(i))
		c.endMessage(start, User)
	case jsonscan.Object:
		e := c.gather(i)
		role, known := c.roleOf(&e)
		if !known {
			return
		}
		c.header(role)
		if e.known {
			c.pieces(&e)
		} else if e.role == 0 {
			c.other(i)
		}
		c.endMessage(start, roleNamed(role))
	}
}

// roleOf is the role of a message or item; false when it is not part of the prompt.
func (c *Chain) roleOf(e *entry) (role []byte, ok bool) {
	if e.role > 0 && c.tape.tokens[e.role].kind == jsonscan.String {
		return c.tape.content(e.role), true
	}
	switch {
	case e.form == thought:
		return nil, false
	case e.form == call:
		return []byte("assistant"), true
	case e.form == result:
		return []byte("tool"), true
	}
	return []byte("user"), true
}

func roleNamed(name []byte) Role {
	switch string(name) {
	case "user", "human":
		return User
	case "assistant", "model":
		return Assistant
	case "tool", "function", "ipython":
		return Tool
	case "system", "developer":
		return System
	}
	return OtherRole
}

// header begins a message and returns where its pieces begin.
func (c *Chain) header(role []byte) int {
	c.text = append(c.text, markRole)
	c.text = append(c.text, role...)
	c.text = append(c.text, markRoleEnd)
	return len(c.text)
}
