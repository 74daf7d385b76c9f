package prompt

import (
	"encoding/binary"
	"math/bits"
)

const (
	// length in canonical bytes above which samples are used
	sampleAll = 2048
	// number of blocks above which a quarter of the samples are used
	sampleLess = 256
	// bytes classified at once, together with the two before them
	window = 6
)

// kinds classifies the canonical text, given the samples of its whole blocks.
func (c *Chain) kinds() TextKinds {
	var k TextKinds
	if c.Bytes < sampleAll {
		c.classify(&k, 0, c.Bytes)
		return k
	}
	k = c.sampled
	all, seen := len(c.Blocks)*BlockBytes, k.Latin+k.Code+k.CJK+k.Other
	k.Latin, k.CJK, k.Other = k.Latin*all/seen, k.CJK*all/seen, k.Other*all/seen
	k.Digits, k.Starts = k.Digits*all/seen, k.Starts*all/seen
	k.Code = all - k.Latin - k.CJK - k.Other
	c.classify(&k, all-c.base, len(c.text))
	return k
}

// sample classifies a sample of the latest block, which begins at c.text[at] and has the hash h.
func (c *Chain) sample(at int, h uint64) {
	from := at + 2 + int(uint32(h)%(BlockBytes-2*window-1))
	if len(c.Blocks) <= sampleLess {
		c.classify(&c.sampled, from, from+2*window)
		return
	}
	if len(c.Blocks)%2 == 0 {
		const weight = 4
		var k TextKinds
		c.classify(&k, from, from+window)
		s := &c.sampled
		s.Latin, s.Code, s.CJK, s.Other = s.Latin+weight*k.Latin, s.Code+weight*k.Code, s.CJK+weight*k.CJK,
			s.Other+weight*k.Other
		s.Digits, s.Starts = s.Digits+weight*k.Digits, s.Starts+weight*k.Starts
	}
}

// Of each of eight bytes: 1, and the highest bit.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// inside is the window among eight bytes, without the two before it.
const inside = highs &^ 0xffff

// classify adds the bytes [from, to) of c.text, a window at once where there are no marks.
func (c *Chain) classify(k *TextKinds, from, to int) {
	d := c.text
	if start := min(2, to); from < start { // a window needs two bytes before it
		c.classifyBytes(k, from, start)
		from = start
	}
	for ; to-from >= window; from += window {
		x := binary.LittleEndian.Uint64(d[from-2:])
		high := x & highs
		if high != 0 {
			if hasMark(x, high) {
				c.classifyBytes(k, from, from+window)
				continue
			}
			if n := bits.OnesCount64(high & inside); n > 0 {
				// All bytes beyond ASCII in the window are classified by their first character.
				if c.beyond(k, from-2+bits.TrailingZeros64(high&inside)>>3, n) {
					k.Starts += (n + 1) / 3 // most have three bytes
				}
			}
			x &^= (high >> 7) * 0xff
		}
		k.count(x, high)
	}
	c.classifyBytes(k, from, to)
}

// count adds the ASCII bytes of a window; bytes beyond ASCII are 0 in x and marked in high. The highest bit of a byte
// marks a member of a class. Sums cannot overflow into the next byte, as no byte is above 0x7f.
func (k *TextKinds) count(x, high uint64) {
	folded := x | ones*' '
	letter := (folded + ones*(0x80-'a')) &^ (folded + ones*(0x80-'z'-1)) & highs
	lower := letter & (x << 2)
	digit := (x + ones*(0x80-'0')) &^ (x + ones*(0x80-'9'-1)) & highs
	black := (x + ones*(0x80-' '-1)) & highs
	space := ^((x ^ ones*' ') + ones*0x7f) & highs
	white := highs &^ (black | high)
	mark := black &^ (letter | digit)

	latin := letter | space&^(space<<8)
	k.Latin += bits.OnesCount64(latin & inside)
	k.Code += bits.OnesCount64(inside &^ (latin | high))
	k.Digits += bits.OnesCount64(digit & inside)
	k.Starts += bits.OnesCount64(inside & (letter&^(letter<<8) | letter&^lower&(lower<<8) | mark&^(mark<<8) |
		white&^space&^(white<<8) | white&(space<<8)&^(white<<16)))
}

// hasMark reports whether there is a mark among eight bytes; high marks those beyond ASCII.
func hasMark(x, high uint64) bool {
	low := x &^ highs
	return high&((low+ones*(0x100-markQuote))|^((low^ones*(markSuffix&0x7f))+ones*0x7f)) != 0
}

// beyond adds n bytes of characters beyond ASCII, the first of which has a byte at i, and reports whether it is a
// symbol.
func (c *Chain) beyond(k *TextKinds, i, n int) bool {
	d := c.text
	for i > 0 && d[i]&0xc0 == 0x80 {
		i--
	}
	switch {
	case isCJK(d[i], d[i+1]):
		k.CJK += n
	case isSymbol(d[i], d[i+1]):
		k.Code += n
		return true
	default:
		k.Other += n
	}
	return false
}

// isSymbol reports, by the first two bytes of a character, whether it is punctuation, a symbol or an emoji: U+0080 to
// U+00BF, U+2000 to U+2FFF and U+1F000 to U+1FFFF.
func isSymbol(lead, next byte) bool {
	return lead == 0xc2 || lead == 0xe2 || lead == 0xf0 && next == 0x9f
}

func isMark(b byte) bool { return b >= markQuote || b == markSuffix }

// classifyBytes is classify byte by byte.
func (c *Chain) classifyBytes(k *TextKinds, from, to int) {
	d := c.text
	at := func(i int) byte {
		switch {
		case i < 0:
			return 0x80
		case isMark(d[i]):
			return '"'
		}
		return d[i]
	}
	b, b1, b2 := byte(0), at(from-1), at(from-2) // a byte and the two before it
	for i := from; i < to; i, b1, b2 = i+1, b, b1 {
		b = at(i)
		switch {
		case isLetter(b):
			k.Latin++
			if !isLetter(b1) || b < 'a' && b1 >= 'a' {
				k.Starts++
			}
			continue
		case b >= 0x80:
			if c.beyond(k, i, 1) && b&0xc0 != 0x80 {
				k.Starts++
			}
			continue
		case b == ' ' && b1 != ' ':
			k.Latin++
			continue
		case b == ' ':
			if !isWhite(b2) {
				k.Starts++
			}
		case isWhite(b):
			if !isWhite(b1) || b1 == ' ' && !isWhite(b2) {
				k.Starts++
			}
		case b >= '0' && b <= '9':
			k.Digits++
		case !isPunctuation(b1):
			k.Starts++
		}
		k.Code++
	}
}

func isLetter(b byte) bool { return b&0xdf >= 'A' && b&0xdf <= 'Z' }

func isWhite(b byte) bool { return b <= ' ' }

func isPunctuation(b byte) bool { return b > ' ' && b < 0x80 && !isLetter(b) && (b < '0' || b > '9') }

// isCJK reports, by the first two bytes of a character, whether it is Chinese, Japanese or Korean: U+3000 to U+9FFF,
// U+AC00 to U+D7FF, U+F900 to U+FAFF, U+FF00 to U+FFBF and the planes 2 and 3.
func isCJK(lead, next byte) bool {
	switch {
	case lead >= 0xe3 && lead <= 0xe9:
		return true
	case lead == 0xea:
		return next >= 0xb0
	case lead >= 0xeb && lead <= 0xed:
		return true
	case lead == 0xef:
		return next >= 0xa4 && next <= 0xab || next >= 0xbc && next <= 0xbe
	case lead == 0xf0:
		return next >= 0xa0 && next <= 0xbf
	}
	return false
}
