package prompt

import (
	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// The canonical form. Decoded strings are UTF-8, in which the bytes 0xC1 and 0xF5 to 0xFF never occur; so content
// cannot forge these marks, and no two prompts have one form by accident.
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
// A prompt that is not a chat is its text alone, then markSuffix and the suffix to fill in before; a prompt of token
// ids is four bytes each, little-endian.
//
// Excluded, so that a message looks the same when it returns in the next turn: ids of calls and items, cache_control,
// status, annotations and signatures, and thoughts (thinking blocks, reasoning items and reasoning_content), which
// clients drop and templates do not render for past turns. Unknown members of messages are excluded too. So is the
// attribution that Claude Code puts in front of its system field: it differs at each turn, and vLLM leaves it out
// (vllm-project/vllm pull request 36829). Where an engine computes it, no prompt finds anything cached behind it.
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

// composePlain writes and ends a prompt that is not a chat. The front is in place, and the prompt too if it is one
// string.
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

// plain writes a prompt that is not a chat: a string, token ids, or a list of either.
func (c *Chain) plain(f field) {
	i, ok := c.tape.start(f)
	if !ok {
		return
	}
	tok := &c.tape.tokens[i]
	switch {
	case tok.kind != jsonscan.Array:
		if tok.kind != jsonscan.Null {
			c.Prompts = 1
			c.one(i)
		}
		return
	case tok.after == i+1:
		return
	}
	for j := i + 1; j < tok.after; j = c.tape.tokens[j].after {
		c.Prompts++
	}
	first := c.inner(i + 1)
	c.one(first)
	if c.Prompts == 1 {
		return
	}
	for j := i + 1; j < tok.after; j = c.tape.tokens[j].after {
		at := c.inner(j)
		if len(c.List) < MaxListed {
			c.enterListed(at)
		}
		if at != first && c.tape.tokens[first].kind == jsonscan.String && c.tape.tokens[at].kind == jsonscan.String {
			c.text = append(append(c.text, '\n'), c.tape.content(at)...)
		}
	}
	c.cutList()
}

// inner is the prompt at i of a list: the run of ids, where it is a list of its own.
func (c *Chain) inner(i uint32) uint32 {
	if tok := &c.tape.tokens[i]; tok.kind == jsonscan.Array && tok.after > i+1 {
		return i + 1
	}
	return i
}

// one writes the prompt at i.
func (c *Chain) one(i uint32) {
	switch c.tape.tokens[i].kind {
	case tokenIDs:
		if len(c.text) == 0 {
			c.root = rootIDs
		}
		c.text = append(c.text, c.tape.content(i)...)
		c.ids = len(c.text)
	case jsonscan.String:
		c.text = append(c.text, c.tape.content(i)...)
	case jsonscan.Object:
		c.other(i)
	}
}

// enterListed notes the prompt at i as one of several, with the blocks that it has by itself.
func (c *Chain) enterListed(i uint32) {
	p := Listed{at: i}
	h := uint64(rootText)
	switch c.tape.tokens[i].kind {
	case tokenIDs:
		h = rootIDs
		p.IDs = len(c.tape.content(i)) / 4
	case jsonscan.String:
	default:
		c.List = append(c.List, p)
		return
	}
	text := c.tape.content(i)
	p.Bytes = len(text)
	for ; len(text) >= BlockBytes; text = text[BlockBytes:] {
		h = xxh3.HashSeed(text[:BlockBytes], h)
		c.listed = append(c.listed, h)
	}
	if p.Whole = h; len(text) > 0 {
		p.Whole = xxh3.HashSeed(text, h)
	}
	c.List = append(c.List, p)
}

// cutList gives each of a list its blocks, now that they do not move any more.
func (c *Chain) cutList() {
	from := 0
	for i := range c.List {
		to := from + c.List[i].Bytes/BlockBytes
		c.List[i].Blocks = c.listed[from:to:to]
		from = to
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

// roleOf is the role of a message or item; false if it is not part of the prompt.
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

// header begins a message and returns the start of its pieces.
func (c *Chain) header(role []byte) int {
	c.text = append(c.text, markRole)
	c.text = append(c.text, role...)
	c.text = append(c.text, markRoleEnd)
	return len(c.text)
}
