package prompt

import "encoding/json"

// documents are seeds for the fuzzers and rows for the table: every state of the grammar, right and wrong.
var documents = []string{
	``, ` `, "\x00", `null`, `true`, `false`, `nul`, `nulll`, `tru`, `0`, `-0`, `-`, `01`, `1.`, `1.5`, `.5`, `1e`,
	`1e+`, `1e+7`, `1E-07`, `-1.25e3`, `1.e3`, `0x1`, `+1`, `NaN`, `""`, `"`, `"a`, `"\`, `"\u`, `"\u12`, `"\u12g4"`,
	`"\u00e9"`, `"\x"`, `"\/\b\f\n\r\t\"\\"`, "\"tab\there\"", "\"nul\x00\"", "\"\x1f\"", "\"\x20\x7f\"",
	"\"\xff\xfe\"", `"é日本😀"`, `"\ud83d\ude00"`, `"\ud83d"`, `[]`, `[ ]`, `[1]`, `[1,]`, `[,1]`, `[1 2]`, `[1`, `[`, `]`,
	`[}`, `{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{a:1}`, `{'a':1}`, `{"a":1 "b":2}`,
	`{"a":1]`, `{"a":[{"b":[]}]}`, `{"a":1,"a":2}`, "\t\n\r {\"a\" : [ 1 , 2 ] } \n", "{}\v", "\ufeff{}", `{}{}`,
	`{} x`, `"0123456\"89"`, `"01234567\n9abcdef0123456"`, "\"0123456\n\"", `[[[[[[[[[[]]]]]]]]]]`, `{"":{"":{"":[]}}}`,
}

// toASCII encodes s as Python's json.dumps does by default, with everything beyond ASCII escaped.
func toASCII(s string) []byte {
	var out []byte
	quoted, _ := json.Marshal(s)
	for _, r := range string(quoted) {
		if r < 0x80 {
			out = append(out, byte(r))
			continue
		}
		if r > 0xffff {
			r -= 0x10000
			out = appendEscape(out, 0xd800+r>>10)
			r = 0xdc00 + r&0x3ff
		}
		out = appendEscape(out, r)
	}
	return out
}

func appendEscape(out []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(out, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
