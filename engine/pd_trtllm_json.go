package engine

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
)

const (
	ctxInfoEndpoint = "ctx_info_endpoint"
	opaqueState     = "encoded_opaque_state"
)

// membersOf is memberOf for several members in one pass; values has one for each name, nil where it is absent.
func membersOf(body []byte, names ...string) (values [][]byte, ok bool) {
	values = make([][]byte, len(names))
	c := cursor{b: body}
	if !c.take('{') {
		return values, false
	}
	for {
		key, more := c.key()
		if !more {
			return values, c.take('}')
		}
		c.space()
		start := c.i
		if !c.numbers() && !c.skip() {
			return values, false
		}
		for i, name := range names {
			if string(key) == name {
				values[i] = body[start:c.i]
			}
		}
	}
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

// otherMembers appends the members of an object that have none of the names, each after a comma, as they lie there.
func otherMembers(out, object []byte, but ...string) []byte {
	c := cursor{b: object}
	if !c.take('{') {
		return out
	}
	for {
		c.take(',')
		c.space()
		start := c.i
		key, more := c.key()
		if !more || !c.skip() {
			return out
		}
		name := string(key)
		if bytes.IndexByte(key, '\\') >= 0 && json.Unmarshal(append(append([]byte{'"'}, key...), '"'), &name) != nil {
			return out
		}
		named := false
		for _, b := range but {
			named = named || name == b
		}
		if !named {
			out = append(append(out, ','), object[start:c.i]...)
		}
	}
}

// elements counts the elements of a list, as far as most; -1 for what is no list.
func elements(list []byte, most int) int {
	c := cursor{b: list}
	if !c.take('[') {
		return -1
	}
	n := 0
	for ; n < most && !c.take(']'); n++ {
		if n > 0 && !c.take(',') || !c.skip() {
			return -1
		}
	}
	return n
}

// element is one element of a list, nil when it has not so many.
func element(list []byte, at int) []byte {
	c := cursor{b: list}
	if !c.take('[') {
		return nil
	}
	for i := 0; ; i++ {
		if i > 0 && !c.take(',') {
			return nil
		}
		c.space()
		start := c.i
		if !c.skip() {
			return nil
		}
		if i == at {
			return list[start:c.i]
		}
	}
}

// slicesOf is a list of one element.
func slicesOf(element []byte) []byte {
	return append(append([]byte{'['}, element...), ']')
}

// firstOf is a value, or the first of a list of them.
func firstOf(value []byte) []byte {
	if len(value) > 0 && value[0] == '[' {
		return element(value, 0)
	}
	return value
}

func orNull(value []byte) []byte {
	if value == nil {
		return []byte("null")
	}
	return value
}

// isWhole reports whether a value is a whole number that is not negative, of 64 bits at most.
func isWhole(value []byte) bool {
	_, err := strconv.ParseUint(string(value), 10, 64)
	return err == nil && (value[0] != '0' || len(value) == 1)
}

// isIDs reports whether a value is a list of token ids.
func isIDs(value []byte) bool {
	if len(value) < 2 || value[0] != '[' || value[len(value)-1] != ']' {
		return false
	}
	digits, wanted := 0, false // digits of this number; a comma was read, so that another one must follow
	for _, b := range value[1 : len(value)-1] {
		switch {
		case b >= '0' && b <= '9':
			if digits < 0 {
				return false // a space within
			}
			if digits++; digits > 10 {
				return false
			}
		case b == ',':
			if digits == 0 {
				return false
			}
			digits, wanted = 0, true
		case isSpace(b):
			if digits > 0 {
				digits = -1
			}
		default:
			return false
		}
	}
	return digits != 0 || !wanted && len(bytes.TrimSpace(value[1:len(value)-1])) == 0
}

// isBase64 reports whether a value is a text of nothing but base64.
func isBase64(value []byte) bool {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return false
	}
	for _, b := range value[1 : len(value)-1] {
		letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
		if !letter && b != '+' && b != '/' && b != '=' {
			return false
		}
	}
	return true
}

// decodeIDs reads token ids in base64 of little-endian int32 and writes them as a list.
func decodeIDs(value []byte) ([]byte, error) {
	if !isBase64(value) {
		return nil, errors.New("engine: the context worker's prompt_token_ids_b64 are no base64")
	}
	b, err := base64.StdEncoding.DecodeString(string(value[1 : len(value)-1]))
	if err != nil || len(b)%4 != 0 {
		return nil, errors.New("engine: the context worker's prompt_token_ids_b64 are no base64 of numbers of 32 bits")
	}
	out := []byte{'['}
	for i := 0; i < len(b); i += 4 {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, uint64(binary.LittleEndian.Uint32(b[i:])), 10)
	}
	return append(out, ']'), nil
}

// signature is what a generation worker with a key checks (tensorrt_llm/serve/disagg_auth.py): HMAC-SHA256 over the two members by which it
// finds the KV cache, as compact JSON with sorted keys, of a list of addresses the first. "" when both are absent.
func signature(key string, params []byte) string {
	values, _ := membersOf(params, ctxInfoEndpoint, opaqueState)
	at, state := firstOf(values[0]), values[1]
	if isNull(at) && isNull(state) {
		return ""
	}
	said := append(pythonJSON([]byte(`{"`+ctxInfoEndpoint+`":`), at), `,"`+opaqueState+`":`...)
	said = append(pythonJSON(said, state), '}')
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(said)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// pythonJSON appends a JSON text as Python's json.dumps writes it, in ASCII; other values as they are.
func pythonJSON(out, value []byte) []byte {
	var text string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return append(out, orNull(value)...)
	}
	out = append(out, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r == '\b':
			out = append(out, `\b`...)
		case r == '\f':
			out = append(out, `\f`...)
		case r >= ' ' && r <= '~':
			out = append(out, byte(r))
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return append(out, '"')
}
