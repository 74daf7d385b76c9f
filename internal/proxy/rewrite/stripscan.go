package rewrite

import (
	"bytes"
	"encoding/json"
)

// chunkScan reads a line of a stream, in parts of any size, while it may be a usage chunk: "data:" and one object whose
// "choices" is an empty array and whose "usage" is an object. It checks only the syntax needed to find the object's
// members; ended checks the rest. The zero value is ready.
type chunkScan struct {
	state          chunkState
	depth          int // brackets open below the object's own
	name           [len(`choices`) + 1]byte
	size           int // bytes of the name so far, counted to len(name)
	choices, usage bool
}

// chunkState says what the next byte belongs to.
type chunkState uint8

const (
	chunkPrefix  chunkState = iota // "data:", of which size bytes are read
	chunkOpen                      // the object's brace is to come
	chunkMember                    // a name, or the object's end
	chunkName                      // within a name
	chunkNameEsc                   // the same, after a backslash
	chunkColon                     // the colon is to come
	chunkValue                     // a value is to come
	chunkEmpty                     // the end of the array "choices" is to come
	chunkScalar                    // within a number, true, false or null
	chunkNested                    // within an object or an array
	chunkString                    // within a string at any depth
	chunkStrEsc                    // the same, after a backslash
	chunkNext                      // a comma or the object's end
	chunkEnd                       // the object is read; only space may follow
	chunkNever                     // it is not a usage chunk
)

// write reads on, up to and including the line's end, and reports whether the line may still become a usage chunk.
func (c *chunkScan) write(p []byte) bool {
	for _, b := range p {
		if b == '\n' {
			break
		}
		if c.state = c.next(b); c.state == chunkNever {
			return false
		}
	}
	return true
}

// ended reports whether the line read, given again, is a complete usage chunk.
func (c *chunkScan) ended(line []byte) bool {
	return c.state == chunkEnd && json.Valid(bytes.TrimPrefix(line, []byte("data:")))
}

func (c *chunkScan) next(b byte) chunkState {
	switch c.state {
	case chunkString:
		switch b {
		case '\\':
			return chunkStrEsc
		case '"':
			return c.below()
		}
		return chunkString
	case chunkStrEsc:
		return chunkString
	case chunkNested:
		switch b {
		case '"':
			return chunkString
		case '{', '[':
			c.depth++
		case '}', ']':
			c.depth--
			return c.below()
		}
		return chunkNested
	case chunkPrefix:
		const prefix = "data:"
		if b != prefix[c.size] {
			return chunkNever
		}
		if c.size++; c.size == len(prefix) {
			return chunkOpen
		}
		return chunkPrefix
	case chunkName:
		return c.named(b)
	case chunkNameEsc:
		return c.named('\\')
	case chunkValue:
		return c.value(b)
	case chunkScalar:
		if b != ',' && b != '}' && !isSpace(b) {
			return chunkScalar
		}
		c.state = chunkNext
	}
	return c.between(b)
}

// below is the state after a value, or within its container.
func (c *chunkScan) below() chunkState {
	if c.depth > 0 {
		return chunkNested
	}
	return chunkNext
}

// named reads a byte of a member's name. A name with an escape matches none.
func (c *chunkScan) named(b byte) chunkState {
	switch {
	case b == '"' && c.state == chunkName:
		return chunkColon
	case b == '\\' && c.state == chunkName:
		c.size = len(c.name)
		return chunkNameEsc
	case c.size < len(c.name):
		c.name[c.size] = b
		c.size++
	}
	return chunkName
}

// value reads the first byte of a member's value.
func (c *chunkScan) value(b byte) chunkState {
	if isSpace(b) {
		return chunkValue
	}
	switch string(c.name[:c.size]) {
	case "choices":
		if b != '[' {
			return chunkNever
		}
		c.choices = true
		return chunkEmpty
	case "usage":
		if b != '{' {
			return chunkNever
		}
		c.usage = true
	}
	switch b {
	case '"':
		return chunkString
	case '{', '[':
		c.depth = 1
		return chunkNested
	case ',', ':', '}', ']':
		return chunkNever
	}
	return chunkScalar
}

// between reads a byte outside names and values.
func (c *chunkScan) between(b byte) chunkState {
	switch {
	case isSpace(b):
		return c.state
	case c.state == chunkOpen && b == '{':
		return chunkMember
	case c.state == chunkMember && b == '"':
		c.size = 0
		return chunkName
	case c.state == chunkColon && b == ':':
		return chunkValue
	case c.state == chunkEmpty && b == ']':
		return chunkNext
	case c.state == chunkNext && b == ',':
		return chunkMember
	case (c.state == chunkNext || c.state == chunkMember) && b == '}' && c.choices && c.usage:
		return chunkEnd
	}
	return chunkNever
}
