// Package rawjson reads and rewrites JSON in place: it owns the cursor and the functions that find, count and replace
// members and elements. Values are slices of the input; nothing is copied unless it is written. It checks only the
// syntax it needs, never decodes values into types, and reports failures by results.
package rawjson

import "bytes"

// Cursor reads JSON forwards in place. It checks only the syntax it needs to proceed, copies nothing, and fails by
// returning false, at the latest at the end of Data.
type Cursor struct {
	Data []byte
	Pos  int // of the next byte in Data, at most its length
}

// Space skips white space.
func (c *Cursor) Space() {
	for c.Pos < len(c.Data) && IsSpace(c.Data[c.Pos]) {
		c.Pos++
	}
}

// IsSpace reports whether JSON allows the byte between tokens.
func IsSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// Take skips white space and then the byte want, if it comes next.
func (c *Cursor) Take(want byte) bool {
	c.Space()
	if c.Pos < len(c.Data) && c.Data[c.Pos] == want {
		c.Pos++
		return true
	}
	return false
}

// Str reads a string and returns the content of its quotes, still escaped.
func (c *Cursor) Str() (raw []byte, ok bool) {
	if !c.Take('"') {
		return nil, false
	}
	start := c.Pos
	for c.Pos < len(c.Data) {
		switch c.Data[c.Pos] {
		case '\\':
			c.Pos += 2
		case '"':
			raw = c.Data[start:c.Pos]
			c.Pos++
			return raw, true
		default:
			c.Pos++
		}
	}
	c.Pos = len(c.Data) // a backslash at the end skips a byte that is not there
	return nil, false
}

// Key reads the next key of the current object, with its colon; false at the object's end or an error.
func (c *Cursor) Key() (raw []byte, ok bool) {
	c.Take(',')
	if raw, ok = c.Str(); !ok || !c.Take(':') {
		return nil, false
	}
	return raw, true
}

// Skip skips one value of any kind. It keeps no stack, so deep nesting costs nothing.
func (c *Cursor) Skip() bool {
	depth := 0
	for {
		c.Space()
		if c.Pos >= len(c.Data) {
			return false
		}
		switch ch := c.Data[c.Pos]; ch {
		case '"':
			if _, ok := c.Str(); !ok {
				return false
			}
		case '{', '[':
			depth++
			c.Pos++
			continue
		case '}', ']':
			depth--
			c.Pos++
			if depth < 0 {
				return false
			}
		case ',', ':':
			if depth == 0 {
				return false
			}
			c.Pos++
			continue
		default:
			c.Word()
		}
		if depth == 0 {
			return true
		}
	}
}

// Word skips a number, true, false or null.
func (c *Cursor) Word() (w []byte) {
	start := c.Pos
	for c.Pos < len(c.Data) {
		switch c.Data[c.Pos] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\n', '\t', '\r':
			return c.Data[start:c.Pos]
		}
		c.Pos++
	}
	return c.Data[start:]
}

// MaxCount bounds plausible token counts; no context is near it, and sums of a few do not overflow.
const MaxCount = 1 << 40

// Count reads a whole number from 0 to MaxCount, with an optional fraction of zero. Any other value (null, a string, an
// object, a negative number) is skipped and not ok.
func (c *Cursor) Count() (n int64, ok bool) {
	c.Space()
	if c.Pos >= len(c.Data) {
		return 0, false
	}
	if b := c.Data[c.Pos]; b < '0' || b > '9' {
		c.Skip()
		return 0, false
	}
	w := c.Word()
	for i, b := range w {
		switch {
		case b >= '0' && b <= '9':
			if n = n*10 + int64(b-'0'); n > MaxCount {
				return 0, false
			}
		case b == '.' && i > 0 && allZero(w[i+1:]):
			return n, true
		default:
			return 0, false
		}
	}
	return n, true
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != '0' {
			return false
		}
	}
	return true
}

// numbers skips a list of numbers only, such as a million token ids, if one comes next. It looks no further than the
// next list, so many of them cost no more than their length.
func (c *Cursor) numbers() bool {
	if c.Pos+1 >= len(c.Data) || c.Data[c.Pos] != '[' || c.Data[c.Pos+1] < '0' || c.Data[c.Pos+1] > '9' {
		return false
	}
	rest := c.Data[c.Pos+1:]
	if next := bytes.IndexByte(rest, '['); next >= 0 {
		rest = rest[:next]
	}
	end := bytes.IndexByte(rest, ']')
	if end < 0 || bytes.IndexByte(rest[:end], '"') >= 0 || bytes.IndexByte(rest[:end], '{') >= 0 {
		return false
	}
	c.Pos += end + 2
	return true
}
