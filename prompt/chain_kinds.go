package prompt

import (
	"encoding/binary"
	"math/bits"
)

const (
	// sampleAll is the length in canonical bytes from which on only samples are looked at.
	sampleAll = 1024
	// window is how many bytes are looked at together, one window in each block when sampling.
	window = 8
)

// kinds classifies the canonical text. Where in a block the sample is taken is as good as chance, since the block's hash
// says so; a fixed place would see only some columns of a table.
func (c *Chain) kinds() TextKinds {
	var k TextKinds
	if c.Bytes < sampleAll {
		c.classify(&k, 0, c.Bytes)
		return k
	}
	for i, h := range c.Blocks {
		at := i*BlockBytes + int(h&(BlockBytes-window))
		c.classify(&k, at, at+window)
	}
	const scale = BlockBytes / window
	k.Latin, k.Code, k.CJK, k.Other = k.Latin*scale, k.Code*scale, k.CJK*scale, k.Other*scale
	c.classify(&k, len(c.Blocks)*BlockBytes, c.Bytes)
	return k
}

// classify adds the bytes [from, to) of the text.
func (c *Chain) classify(k *TextKinds, from, to int) {
	d := c.text
	for ; to-from >= window; from += window {
		x := binary.LittleEndian.Uint64(d[from:])
		ascii := window
		if high := x & highs; high != 0 {
			first := from + bits.TrailingZeros64(high)>>3
			if isMark(d[first]) {
				c.classifyBytes(k, from, from+window)
				continue
			}
			// All beyond ASCII among so few bytes is taken for what the first character is.
			n := bits.OnesCount64(high)
			*c.kindAt(k, first) += n
			ascii -= n
			x &^= (high >> 7) * 0xff
		}
		before := byte(0)
		if from > 0 {
			before = d[from-1]
		}
		n := latin(x, before)
		k.Latin += n
		k.Code += ascii - n
	}
	c.classifyBytes(k, from, to)
}

// kindAt is the count for the character beyond ASCII that has a byte at i.
func (c *Chain) kindAt(k *TextKinds, i int) *int {
	d := c.text
	for i > 0 && d[i]&0xc0 == 0x80 {
		i--
	}
	if isCJK(d[i], d[i+1]) {
		return &k.CJK
	}
	return &k.Other
}

func isMark(b byte) bool { return b >= markQuote || b == markSuffix }

// latin counts the letters and single spaces among eight bytes of ASCII that follow the byte before. A sum cannot run
// over into the next byte, as none is above 0x7f.
func latin(x uint64, before byte) int {
	lower := x | ones*' '
	letters := (lower + ones*(0x80-'a')) &^ (lower + ones*(0x80-'z'-1))
	spaces := ^((x ^ ones*' ') + ones*0x7f) & highs
	repeated := spaces << 8
	if before == ' ' {
		repeated |= 0x80
	}
	return bits.OnesCount64((letters | spaces&^repeated) & highs)
}

// classifyBytes is classify one by one.
func (c *Chain) classifyBytes(k *TextKinds, from, to int) {
	d := c.text
	for i := from; i < to; i++ {
		switch b := d[i]; {
		case b&0xdf >= 'A' && b&0xdf <= 'Z', b == ' ' && (i == 0 || d[i-1] != ' '):
			k.Latin++
		case b < 0x80, isMark(b):
			k.Code++
		default:
			*c.kindAt(k, i)++
		}
	}
}

// isCJK tells by the first two bytes of a character whether it is Chinese, Japanese or Korean: U+3000 to U+9FFF,
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
