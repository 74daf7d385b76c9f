package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	fastutf8 "github.com/segmentio/asm/utf8"
)

// escapes are the decoded characters that may follow a backslash (besides u), from the quote on; 0 for invalid ones.
const escapes = "\"" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "/" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\\" +
	"\x00\x00\x00\x00\x00" + "\b" + "\x00\x00\x00" + "\f" + "\x00\x00\x00\x00\x00\x00\x00" + "\n" + "\x00\x00\x00" +
	"\r" + "\x00" + "\t"

// quotedOnto is quoted that also appends the decoded string to *c.Out, from c.OutFrom on. Copying while searching for
// the end costs little; a second pass for escapes would cost as much as the first. The decoded string is never longer
// than the input, and up to 64 bytes are written at a time.
func (c *Cursor) quotedOnto() int {
	d, i, lost, cutAt := c.data, c.pos+1, 0, len(c.data)
	if c.Cut != nil {
		i, lost, cutAt = c.Cut.begin(c.pos)
	}
	first, from := i, len(*c.Out)
	out, o := *c.Out, from
	near := d[:i]   // the part with room in out
	var seen uint64 // all bytes, ored together
	deepAt := i + deepAfter
	for {
		if i >= deepAt {
			was := i - o
			out, near, i, o, seen = c.blocks(out, near, i, o, cutAt, seen)
			lost, deepAt = lost+i-o-was, i+deepAfter
		}
		for {
			for len(near)-i >= 16 {
				src, dst := (*[16]byte)(near[i:]), (*[16]byte)(out[o:])
				x, y := binary.LittleEndian.Uint64(src[:8]), binary.LittleEndian.Uint64(src[8:])
				binary.LittleEndian.PutUint64(dst[:8], x)
				binary.LittleEndian.PutUint64(dst[8:], y)
				seen |= x | y
				m, n := stops(x), stops(y)
				if m|n == 0 {
					i, o = i+16, o+16
					continue
				}
				// The first stop, 8 for none in the first half. A branch on the half would be mispredicted.
				at := bits.TrailingZeros64(m) >> 3
				at += bits.TrailingZeros64(n) >> 3 * (at >> 3)
				i, o = i+at, o+at
				goto stopped
			}
			if len(near) == len(d) {
				break
			}
			out, near = c.room(out[:o], i)
		}
		for i < len(d) && d[i] >= ' ' && d[i] != '"' && d[i] != '\\' {
			seen |= uint64(d[i])
			out[o] = d[i]
			i++
			o++
		}
	stopped:
		if i >= len(d) || d[i] != '\\' {
			return c.closed(out[:o], from, Span{first, i}, seen, lost)
		}
		if i >= cutAt {
			cutAt = c.Cut.note(i, o, lost)
		}
		if i+1 < len(d) {
			if e := d[i+1] - '"'; int(e) < len(escapes) && escapes[e] != 0 {
				out[o] = escapes[e]
				i, o, lost = i+2, o+1, lost+1
				continue
			}
		}
		saved, ok := c.unicodeEscape(i)
		if !ok {
			return -1
		}
		r, n := escapedRune(d, i)
		lost += saved * (n / 6) // for both halves of a pair
		o += utf8.EncodeRune(out[o:], r)
		i += n
	}
}

// deepAfter is how much of a string is read before blocks are tried, and again after they end: they are useless for
// short strings or when all escapes are numeric.
const deepAfter = 64

// blocks decodes whole blocks from i on into out from o on, as far as possible, but not beyond end. It returns the
// advanced arguments.
func (c *Cursor) blocks(out, near []byte, i, o, end int, seen uint64) (_, _ []byte, _, _ int, _ uint64) {
	for deep {
		if len(near)-i < 64 && len(near) < len(c.data) {
			out, near = c.room(out[:o], i)
		}
		read, written, high := decodeBlocks(out[o:], near[i:max(i, min(len(near), end))])
		if read == 0 {
			break
		}
		i += read
		o += written
		if high != 0 {
			seen |= highs
		}
	}
	return out, near, i, o, seen
}

// leastRoom is the step in which room is allocated while a string's length is unknown.
const leastRoom = 4096

// room grows out for what is decoded from i on, and returns the part of the body with room.
func (c *Cursor) room(out []byte, i int) (grown, near []byte) {
	const beyond = 64 // bytes written beyond the end: a word, an escape, the rest of the last part
	left := len(c.data) - i
	if cap(out)-len(out) < min(left, leastRoom)+beyond {
		out = slices.Grow(out, min(left, max(leastRoom, len(out)))+beyond)
	}
	return out[:cap(out)], c.data[:i+min(left, cap(out)-len(out)-beyond)]
}

// closed accepts the decoded string out[from:], whose raw form is at a span, and returns the offset after its closing
// quote; -1 if the string is invalid. Bytes that are not UTF-8 are replaced, so that it cannot contain marks of the
// canonical form.
func (c *Cursor) closed(out []byte, from int, raw Span, seen uint64, lost int) int {
	switch {
	case raw.End >= len(c.data):
		c.fail(len(c.data), "a closing quote")
		return -1
	case c.data[raw.End] != '"':
		c.fail(raw.End, "no control characters within a string")
		return -1
	}
	if seen&highs != 0 && !fastutf8.Valid(out[from:]) {
		out = AppendDecoded(out[:from], c.data[raw.Start:raw.End])
		if c.Cut != nil {
			c.Cut.undo()
		}
	}
	*c.Out, c.OutFrom, c.lost = out, from, lost
	return raw.End + 1
}

// escapedRune is the character that the valid escape at i (\u and four digits) spells, and the bytes of the spelling:
// 12 for a surrogate pair, else 6. Half of a pair is U+FFFD, as in encoding/json.
func escapedRune(d []byte, i int) (r rune, n int) {
	r = hexRune(d[i+2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if rest := d[i+6:]; len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' &&
		hexValue[rest[2]]|hexValue[rest[3]]|hexValue[rest[4]]|hexValue[rest[5]] != notHex {
		if pair := utf16.DecodeRune(r, hexRune(rest[2:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}
