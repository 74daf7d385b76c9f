package engine

import "bytes"

// cursor reads JSON forwards where it lies. It checks only as much syntax as it needs to find its way, copies nothing,
// and fails by returning false, at the latest at the end of b.
type cursor struct {
	b []byte
	i int
}

func (c *cursor) space() {
	for c.i < len(c.b) && isSpace(c.b[c.i]) {
		c.i++
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// take skips white space and then the byte want, if it comes next.
func (c *cursor) take(want byte) bool {
	c.space()
	if c.i < len(c.b) && c.b[c.i] == want {
		c.i++
		return true
	}
	return false
}

// str reads a string and returns what is between its quotes, escapes as they are.
func (c *cursor) str() (raw []byte, ok bool) {
	if !c.take('"') {
		return nil, false
	}
	start := c.i
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case '\\':
			c.i += 2
		case '"':
			raw = c.b[start:c.i]
			c.i++
			return raw, true
		default:
			c.i++
		}
	}
	return nil, false
}

// key reads the next key of the object the cursor is in, with its colon; false at the object's end or an error.
func (c *cursor) key() (raw []byte, ok bool) {
	c.take(',')
	if raw, ok = c.str(); !ok || !c.take(':') {
		return nil, false
	}
	return raw, true
}

// skip passes over one value of any kind. It keeps no stack, so deep nesting costs nothing.
func (c *cursor) skip() bool {
	depth := 0
	for {
		c.space()
		if c.i >= len(c.b) {
			return false
		}
		switch ch := c.b[c.i]; ch {
		case '"':
			if _, ok := c.str(); !ok {
				return false
			}
		case '{', '[':
			depth++
			c.i++
			continue
		case '}', ']':
			depth--
			c.i++
			if depth < 0 {
				return false
			}
		case ',', ':':
			if depth == 0 {
				return false
			}
			c.i++
			continue
		default:
			c.word()
		}
		if depth == 0 {
			return true
		}
	}
}

// word passes over a number, true, false or null.
func (c *cursor) word() (w []byte) {
	start := c.i
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\n', '\t', '\r':
			return c.b[start:c.i]
		}
		c.i++
	}
	return c.b[start:]
}

// maxCount bounds the token counts that are believed; no context is near it, and sums of a few stay far from overflow.
const maxCount = 1 << 40

// count reads a number that counts something: a whole number from 0 to maxCount, a fraction of zero allowed. Any other
// value (null, a string, an object, a negative number) is passed over and not ok.
func (c *cursor) count() (n int64, ok bool) {
	c.space()
	if c.i >= len(c.b) {
		return 0, false
	}
	if b := c.b[c.i]; b < '0' || b > '9' {
		c.skip()
		return 0, false
	}
	w := c.word()
	for i, b := range w {
		switch {
		case b >= '0' && b <= '9':
			if n = n*10 + int64(b-'0'); n > maxCount {
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

// numbers passes over a list of nothing but numbers, such as token ids of which there may be a million, if one comes next. It looks no
// further than the next list, so that many of them cost no more than their length.
func (c *cursor) numbers() bool {
	if c.i+1 >= len(c.b) || c.b[c.i] != '[' || c.b[c.i+1] < '0' || c.b[c.i+1] > '9' {
		return false
	}
	rest := c.b[c.i+1:]
	if next := bytes.IndexByte(rest, '['); next >= 0 {
		rest = rest[:next]
	}
	end := bytes.IndexByte(rest, ']')
	if end < 0 || bytes.IndexByte(rest[:end], '"') >= 0 || bytes.IndexByte(rest[:end], '{') >= 0 {
		return false
	}
	c.i += end + 2
	return true
}
