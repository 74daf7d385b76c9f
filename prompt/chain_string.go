package prompt

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// escapes is what may follow a backslash (besides u), decoded, from the quote on; 0 for what may not.
const escapes = "\"" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "/" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\\" +
	"\x00\x00\x00\x00\x00" + "\b" + "\x00\x00\x00" + "\f" + "\x00\x00\x00\x00\x00\x00\x00" + "\n" + "\x00\x00\x00" + "\r" + "\x00" + "\t"

// quotedOnto is quoted that also appends the decoded string to *c.out, from c.outFrom on. Copying while looking for the
// end costs little; a second look for the escapes would cost as much as the first.
func (c *Cursor) quotedOnto() int {
	d, i, lost := c.data, c.pos+1, 0
	// What is decoded is never longer than what was read, and up to sixteen bytes are written at a time.
	from := len(*c.out)
	out := slices.Grow(*c.out, len(d)-i+16)
	out = out[:cap(out)]
	o := from
	var seen uint64 // every byte, ored together
	for {
		for len(d)-i >= 16 {
			src, dst := (*[16]byte)(d[i:]), (*[16]byte)(out[o:])
			x, y := binary.LittleEndian.Uint64(src[:8]), binary.LittleEndian.Uint64(src[8:])
			binary.LittleEndian.PutUint64(dst[:8], x)
			binary.LittleEndian.PutUint64(dst[8:], y)
			seen |= x | y
			m, n := stops(x), stops(y)
			if m|n == 0 {
				i += 16
				o += 16
				continue
			}
			// The first stop, 8 being none in the first half. Which half has it is not to be guessed by a branch.
			at := bits.TrailingZeros64(m) >> 3
			at += bits.TrailingZeros64(n) >> 3 * (at >> 3)
			i += at
			o += at
			goto stopped
		}
		for i < len(d) && d[i] >= ' ' && d[i] != '"' && d[i] != '\\' {
			seen |= uint64(d[i])
			out[o] = d[i]
			i++
			o++
		}
	stopped:
		switch {
		case i >= len(d):
			c.fail(len(d), "a closing quote")
			return -1
		case d[i] == '"':
			c.keep(out[:o], from, i, seen)
			c.lost = lost
			return i + 1
		case d[i] != '\\':
			c.fail(i, "no control characters within a string")
			return -1
		}
		if i+1 < len(d) {
			if e := d[i+1] - '"'; int(e) < len(escapes) && escapes[e] != 0 {
				out[o] = escapes[e]
				o++
				lost++
				i += 2
				continue
			}
		}
		saved, ok := c.unicodeEscape(i)
		if !ok {
			return -1
		}
		r, n := escapedRune(d, i)
		if n > 6 {
			saved *= 2
		}
		lost += saved
		o += utf8.EncodeRune(out[o:], r)
		i += n
	}
}

// keep takes the decoded string out[from:] over, whose raw form ends at end. Bytes that are not UTF-8 are replaced, so
// that the marks of the canonical form cannot be in it.
func (c *Cursor) keep(out []byte, from, end int, seen uint64) {
	if seen&highs != 0 && !validText(out[from:]) {
		out = appendDecoded(out[:from], c.data[c.pos+1:end])
	}
	*c.out, c.outFrom = out, from
}

// escapedRune is the character of the valid \uXXXX at i and the length of its spelling, which is 12 for a surrogate
// pair. Half of a pair is U+FFFD, as in encoding/json.
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

// validText is utf8.Valid, several times as fast on Chinese, Japanese and Korean text: two characters of three bytes at
// a time.
func validText(b []byte) bool {
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		// Only after E0 and ED are some second bytes wrong.
		const (
			three, threeIs = 0xc0c0f0, 0x8080e0
			both, bothAre  = three<<24 | three, threeIs<<24 | threeIs
			odd            = 1<<0 | 1<<0xd
		)
		switch high := x & highs; {
		case high == 0:
			b = b[8:]
			for len(b) >= 32 && (binary.LittleEndian.Uint64(b)|binary.LittleEndian.Uint64(b[8:])|
				binary.LittleEndian.Uint64(b[16:])|binary.LittleEndian.Uint64(b[24:]))&highs == 0 {
				b = b[32:]
			}
		case high&0x80 == 0:
			b = b[bits.TrailingZeros64(high)>>3:]
		case x&both == bothAre && (1<<(x&15)|1<<(x>>24&15))&odd == 0:
			b = b[6:]
		case x&three == threeIs && 1<<(x&15)&odd == 0:
			b = b[3:]
		default:
			r, size := utf8.DecodeRune(b)
			if r == utf8.RuneError && size == 1 {
				return false
			}
			b = b[size:]
		}
	}
	return utf8.Valid(b)
}
