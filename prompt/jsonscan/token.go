package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stops marks the bytes of eight (little-endian) that end a run of plain string content: a quote, a backslash or a
// control character. The lowest mark is exact; borrows may set false marks above a true one only.
func stops(x uint64) uint64 {
	quote := x ^ ones*'"'
	slash := x ^ ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*' ')&^x) & highs
}

// wideFrom is the number of bytes of a string after which larger steps are used, so that keys and short values do not
// pay for them.
const wideFrom = 32

// quoted reads the string whose opening quote is at the position and returns the offset after its closing quote, or -1
// after a failure. It sets lost. Nearly all bytes of a body pass here: eight at a time, or 64 depending on the
// processor.
func (c *Cursor) quoted() int {
	d, i, lost := c.data, c.pos+1, 0
	next := len(d) // where to start larger steps
	if wide {
		next = i + wideFrom
	}
	for {
		for len(d)-i >= 8 {
			if i >= next && len(d)-i >= 64 {
				passed, escapes, open := pass(d, i)
				i += passed - open
				lost += escapes
				next = i + 64 // the stopping byte is examined below
				continue
			}
			if m := stops(binary.LittleEndian.Uint64(d[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		for i < len(d) && d[i] >= ' ' && d[i] != '"' && d[i] != '\\' {
			i++
		}
		switch {
		case i >= len(d):
			c.fail(len(d), "a closing quote")
			return -1
		case d[i] == '"':
			c.lost = lost
			return i + 1
		case d[i] != '\\':
			c.fail(i, "no control characters within a string")
			return -1
		}
		if i+1 < len(d) && isEscape[d[i+1]] {
			lost++
			i += 2
			continue
		}
		saved, ok := c.unicodeEscape(i)
		if !ok {
			return -1
		}
		lost += saved
		i += 6
	}
}

// isEscape is set for the bytes that may follow a backslash (besides u).
var isEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// unicodeEscape checks the escape at i (\u and four digits) and returns by how many bytes its decoded form is shorter.
func (c *Cursor) unicodeEscape(i int) (saved int, ok bool) {
	d := c.data
	if i+1 >= len(d) {
		c.fail(len(d), "an escaped character")
		return 0, false
	}
	if d[i+1] != 'u' {
		c.fail(i+1, `one of "\/bfnrtu after a backslash`)
		return 0, false
	}
	if len(d)-i < 6 || hexValue[d[i+2]]|hexValue[d[i+3]]|hexValue[d[i+4]]|hexValue[d[i+5]] == notHex {
		for i += 2; i < len(d) && hexValue[d[i]] != notHex; {
			i++
		}
		c.fail(i, "four hexadecimal digits")
		return 0, false
	}
	r := hexRune(d[i+2:])
	switch {
	case r < 0x80:
		return 5, true
	case r < 0x800:
		return 4, true
	case r >= 0xd800 && r < 0xe000:
		return 4, true // half of a surrogate pair: two of them make 4 bytes
	}
	return 3, true
}

// notHex marks bytes that are not hexadecimal digits.
const notHex = 255

// hexValue is the value of each hexadecimal digit, notHex for any other byte.
var hexValue = func() (table [256]byte) {
	for b := range table {
		table[b] = notHex
	}
	for i := range 10 {
		table['0'+i] = byte(i)
	}
	for i := range 6 {
		table['a'+i], table['A'+i] = byte(10+i), byte(10+i)
	}
	return table
}()

func (c *Cursor) word(k Kind, text string) Kind {
	for j := range len(text) {
		if at := c.pos + j; at >= len(c.data) || c.data[at] != text[j] {
			return c.fail(at, text)
		}
	}
	return c.scalar(k, c.pos+len(text))
}

// number reads a number by RFC 8259 section 6: an optional minus, no leading zeros, and digits after a point and in an
// exponent.
func (c *Cursor) number() Kind {
	d, i := c.data, c.pos
	if d[i] == '-' {
		i++
	}
	if i < len(d) && d[i] == '0' {
		i++
	} else {
		first := i
		if i = digits(d, i); i == first {
			return c.fail(i, "a digit")
		}
	}
	if i < len(d) && d[i] == '.' {
		first := i + 1
		if i = digits(d, first); i == first {
			return c.fail(i, "a digit")
		}
	}
	if i < len(d) && (d[i] == 'e' || d[i] == 'E') {
		i++
		if i < len(d) && (d[i] == '+' || d[i] == '-') {
			i++
		}
		first := i
		if i = digits(d, first); i == first {
			return c.fail(i, "a digit")
		}
	}
	return c.scalar(Number, i)
}

// digits returns the offset of the first byte from i on that is not a digit.
func digits(d []byte, i int) int {
	for i < len(d) && d[i]-'0' <= 9 {
		i++
	}
	return i
}
