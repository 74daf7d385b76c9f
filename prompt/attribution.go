package prompt

import (
	"bytes"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// attribution begins a part of the system field that Claude Code sends from version 2.1.36 on. Some of it differs at
// each turn, so an engine that computes it finds nothing of the conversation again (anthropics/claude-code issue
// 68900). vLLM leaves such parts out (pull request 36829).
const attribution = "x-anthropic-billing-header"

// DropAttribution is the edit that takes the attribution out of a body for the API of Anthropic; false if it has none.
// The body must be valid.
func DropAttribution(body []byte) (e Edit, ok bool) {
	if !bytes.Contains(body, []byte(attribution)) {
		return e, false
	}
	var c jsonscan.Cursor
	c.Reset(body)
	if c.Next() != jsonscan.Object {
		return e, false
	}
	for {
		switch c.Next() {
		case jsonscan.Key:
		default:
			return e, ok
		}
		system := isNamed(&c, fSystem)
		kind := c.Next()
		if !system {
			if !c.Skip(kind) {
				return Edit{}, false
			}
			continue
		}
		ok = false // of several members the last counts
		if kind != jsonscan.Array {
			if !c.Skip(kind) {
				return Edit{}, false
			}
			continue
		}
		var valid bool
		if e, ok, valid = attributed(&c); !valid {
			return Edit{}, false
		}
	}
}

// attributed reads the rest of an array, and is the edit that takes the first attribution out of it.
func attributed(c *jsonscan.Cursor) (e Edit, ok, valid bool) {
	before := c.Pos() // the end of the part before, or of the opening bracket
	for first := true; ; first = false {
		kind := c.Next()
		if kind == jsonscan.ArrayEnd || kind == jsonscan.Bad {
			return e, ok, kind == jsonscan.ArrayEnd
		}
		from := c.At().Start
		found := false
		if ok {
			valid = c.Skip(kind)
		} else {
			found, valid = isAttribution(c, kind)
		}
		if !valid {
			return Edit{}, false, false
		}
		if found {
			ok = true
			switch end := c.Pos(); {
			case c.Peek() == ',': // with the comma that follows
				e.At = jsonscan.Span{Start: from, End: c.Pos() + 1}
			case first:
				e.At = jsonscan.Span{Start: from, End: end}
			default: // with the comma before
				e.At = jsonscan.Span{Start: before, End: end}
			}
		}
		before = c.Pos()
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
		text := isNamed(c, fText)
		k := c.Next()
		if text {
			found = k == jsonscan.String && bytes.HasPrefix(decoded(c), []byte(attribution))
		}
		if !c.Skip(k) {
			return false, false
		}
	}
}

// isNamed reports whether the last token is the key of this field.
func isNamed(c *jsonscan.Cursor, f field) bool { return string(decoded(c)) == fieldNames[f] }

// decoded is the text of the last token, a key or a string.
func decoded(c *jsonscan.Cursor) []byte {
	text, plain := c.Raw()
	if plain {
		return text
	}
	return jsonscan.AppendDecoded(nil, text)
}
