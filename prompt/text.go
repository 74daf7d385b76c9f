package prompt

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// decode is the string at a span that includes its quotes, decoded as encoding/json does.
func decode(body []byte, at Span) string {
	raw := body[at.Start+1 : at.End-1]
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	return string(appendDecoded(nil, raw))
}

// decodeID is decode for ids: "" for what cannot be one.
func decodeID(body []byte, at Span) string {
	if at.Len() > 6*MaxIDBytes+2 { // every byte written as \u00xx
		return ""
	}
	if id := decode(body, at); isID(id) {
		return id
	}
	return ""
}

// appendDecoded appends the content of a JSON string, which a Cursor has accepted, decoded. Bytes that are not UTF-8
// and halves of surrogate pairs become U+FFFD each, as in encoding/json.
func appendDecoded(dst, raw []byte) []byte {
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

// wholePart is a JSON number cut to a count: 0 for negative ones, maxCount for those above it.
func wholePart(number []byte) int {
	n := 0
	for _, b := range number {
		switch {
		case b == '-':
			return 0
		case b >= '0' && b <= '9':
			n = min(n*10+int(b-'0'), maxCount)
		default: // a fraction or an exponent; rare
			f, err := strconv.ParseFloat(string(number), 64)
			if err != nil || f > maxCount {
				f = maxCount // ParseFloat fails on JSON numbers by range only
			}
			return int(math.Trunc(f))
		}
	}
	return n
}
