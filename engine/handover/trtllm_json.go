package handover

import (
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

	"github.com/warmpath/warmpath/engine/rawjson"
)

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

// decodeIDs converts token ids from base64 of little-endian int32 to a list.
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

// signature is what a generation worker with a key checks (tensorrt_llm/serve/disagg_auth.py): HMAC-SHA256 over the two
// members by which it finds the KV cache, as compact JSON with sorted keys, with the first of a list of addresses. ""
// when both are absent.
func signature(key string, params []byte) string {
	values, _ := rawjson.Members(params, ctxInfoEndpoint, opaqueState)
	at, state := rawjson.First(values[0]), values[1]
	if rawjson.IsNull(at) && rawjson.IsNull(state) {
		return ""
	}
	said := append(pythonJSON([]byte(`{"`+ctxInfoEndpoint+`":`), at), `,"`+opaqueState+`":`...)
	said = append(pythonJSON(said, state), '}')
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(said)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// pythonJSON appends a JSON string in the form of Python's json.dumps, in ASCII; other values unchanged.
func pythonJSON(out, value []byte) []byte {
	var text string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return append(out, rawjson.OrNull(value)...)
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
