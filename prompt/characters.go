package prompt

import (
	"unicode/utf8"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// Characters counts the code points of a prompt: a text, the texts in a list, the contents of messages and their text
// parts, without roles, tools, non-text and token ids. It is the measure of production-stack's PR 890. The body must be
// valid for Parse; of duplicate fields the last counts.
func Characters(api API, body []byte) int {
	var c jsonscan.Cursor
	c.Reset(body)
	main, front := api.mainField(), api.frontField()
	ofMain, ofFront := 0, 0
	if c.Next() != jsonscan.Object {
		return 0
	}
	for c.Next() == jsonscan.Key {
		name, _ := c.Raw()
		f := findField(name)
		kind := c.Next()
		n, ok := 0, true
		switch {
		case f == numFields || f != main && f != front:
			ok = c.Skip(kind)
		default:
			n, ok = characters(&c, kind)
		}
		if !ok {
			return 0
		}
		switch f {
		case numFields:
		case main:
			ofMain = n
		case front:
			ofFront = n
		}
	}
	return ofMain + ofFront
}

// characters counts the code points of the value that starts with the last token.
func characters(c *jsonscan.Cursor, kind jsonscan.Kind) (n int, ok bool) {
	switch kind {
	case jsonscan.String:
		text, plain := c.Raw()
		if !plain {
			return utf8.RuneCountInString(jsonscan.Decode(c.Data(), c.At())), true
		}
		return utf8.RuneCount(text), true
	case jsonscan.Array:
		for kind = c.Next(); kind != jsonscan.ArrayEnd; kind = c.Next() {
			of, ok := characters(c, kind)
			if !ok {
				return 0, false
			}
			n += of
		}
		return n, true
	case jsonscan.Object:
		for kind = c.Next(); kind == jsonscan.Key; kind = c.Next() {
			name, _ := c.Raw()
			says := string(name) == "content" || string(name) == "text"
			if kind = c.Next(); !says {
				ok = c.Skip(kind)
			} else {
				of := 0
				of, ok = characters(c, kind)
				n += of
			}
			if !ok {
				return 0, false
			}
		}
		return n, kind == jsonscan.ObjectEnd
	default:
		return 0, kind != jsonscan.Bad
	}
}
