package prompt

import (
	"bytes"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// attribution begins a part of the system field that Claude Code sends from version 2.1.36 on. Some of it differs at
// each turn, so an engine that computes it finds nothing of the conversation again (anthropics/claude-code issue
// 68900). vLLM leaves such parts out (pull request 36829).
const attribution = "x-anthropic-billing-header"

// DropAttribution is the edit that takes the attribution out of the body that the prompt was parsed from; false if it
// has none, or is for another API than Anthropic's.
func (p *Prompt) DropAttribution(body []byte) (e Edit, ok bool) {
	at := p.fields[fSystem]
	var c jsonscan.Cursor
	c.Reset(body[at.Start:at.End])
	if p.API != Messages || c.Next() != jsonscan.Array {
		return e, false
	}
	if e, ok = attributed(&c); !ok {
		return e, false
	}
	e.At.Start += at.Start
	e.At.End += at.Start
	return e, true
}

// attributed reads the rest of an array up to its first attribution, and is the edit that takes that out.
func attributed(c *jsonscan.Cursor) (e Edit, ok bool) {
	before := c.Pos() // the end of the part before, or of the opening bracket
	for first := true; ; first = false {
		kind := c.Next()
		if kind == jsonscan.ArrayEnd {
			return e, false
		}
		from := c.At().Start
		found, valid := isAttribution(c, kind)
		if !valid {
			return e, false
		}
		if !found {
			before = c.Pos()
			continue
		}
		switch end := c.Pos(); {
		case c.Peek() == ',': // with the comma that follows
			e.At = jsonscan.Span{Start: from, End: c.Pos() + 1}
		case first:
			e.At = jsonscan.Span{Start: from, End: end}
		default: // with the comma before
			e.At = jsonscan.Span{Start: before, End: end}
		}
		return e, true
	}
}

// isAttribution reads the rest of a value, and reports whether it is a part whose text is an attribution.
func isAttribution(c *jsonscan.Cursor, kind jsonscan.Kind) (found, valid bool) {
	if kind != jsonscan.Object {
		return false, c.Skip(kind)
	}
	for {
		if k := c.Next(); k != jsonscan.Key {
			return found, k == jsonscan.ObjectEnd
		}
		text := string(decoded(c)) == fieldNames[fText]
		k := c.Next()
		if text {
			found = k == jsonscan.String && bytes.HasPrefix(decoded(c), []byte(attribution))
		}
		if !c.Skip(k) {
			return false, false
		}
	}
}

// decoded is the text of the last token, a key or a string.
func decoded(c *jsonscan.Cursor) []byte {
	text, plain := c.Raw()
	if plain {
		return text
	}
	return jsonscan.AppendDecoded(nil, text)
}
