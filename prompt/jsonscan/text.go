package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// Decode is the string at a span that includes its quotes, decoded as by encoding/json.
func Decode(body []byte, at Span) string {
	raw := body[at.Start+1 : at.End-1]
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	return string(AppendDecoded(nil, raw))
}

// AppendDecoded appends the decoded content of a JSON string accepted by a Cursor. Bytes that are not UTF-8 and halves
// of surrogate pairs become U+FFFD each, as in encoding/json.
func AppendDecoded(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		switch b := raw[i]; {
		case b == '\\' && raw[i+1] == 'u':
			r := hexRune(raw[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(raw)-i >= 6 && raw[i] == '\\' && raw[i+1] == 'u' {
					low = hexRune(raw[i+2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		case b == '\\':
			dst = append(dst, unescape(raw[i+1]))
			i += 2
		case b < utf8.RuneSelf:
			dst = append(dst, b)
			i++
		default:
			r, n := utf8.DecodeRune(raw[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst
}

func hexRune(d []byte) rune {
	return rune(hexValue[d[0]])<<12 | rune(hexValue[d[1]])<<8 | rune(hexValue[d[2]])<<4 | rune(hexValue[d[3]])
}

func unescape(b byte) byte {
	switch b {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return b
}

// AppendString appends s as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD each.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		b := s[i]
		if b >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		}
		switch {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		default:
			dst = append(dst, b)
		}
		i++
	}
	return append(dst, '"')
}
