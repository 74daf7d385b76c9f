package jsonscan

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// verdict reads a whole document.
func verdict(data []byte) error {
	var c Cursor
	c.Reset(data)
	for {
		switch c.Next() {
		case End:
			return nil
		case Bad:
			return c.Err()
		}
	}
}

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

func TestCursorAgreesWithEncodingJSON(t *testing.T) {
	rows := append([]string{}, documents...)
	for _, n := range []int{MaxDepth - 1, MaxDepth, MaxDepth + 1} {
		rows = append(rows, strings.Repeat("[", n)+strings.Repeat("]", n),
			strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n),
			strings.Repeat(`[{"a":`, n/2)+strings.Repeat("}]", n/2))
	}
	for _, doc := range rows {
		got, want := verdict([]byte(doc)), json.Valid([]byte(doc))
		if (got == nil) != want {
			t.Errorf("%.60q: got %v, want valid %v", doc, got, want)
		}
	}
}

// Any byte at any position of a word of eight must stop the fast loop exactly when required.
func TestStringStopsAtEveryByte(t *testing.T) {
	for b := range 256 {
		for at := range 20 {
			doc := []byte(`"` + strings.Repeat("x", 20) + `"`)
			doc[1+at] = byte(b)
			if got, want := verdict(doc) == nil, json.Valid(doc); got != want {
				t.Fatalf("byte %#x at %d: valid %v, want %v", b, at, got, want)
			}
		}
	}
}

func TestTokens(t *testing.T) {
	doc := `{"a": ["x\n", 12, {"b":null}], "é": true}`
	type token struct {
		kind  Kind
		text  string
		depth int
	}
	want := []token{
		{Object, `{`, 1},
		{Key, `"a"`, 1},
		{Array, `[`, 2},
		{String, `"x\n"`, 2},
		{Number, `12`, 2},
		{Object, `{`, 3},
		{Key, `"b"`, 3},
		{Null, `null`, 3},
		{ObjectEnd, `}`, 2},
		{ArrayEnd, `]`, 1},
		{Key, `"é"`, 1},
		{True, `true`, 1},
		{ObjectEnd, `}`, 0},
		{End, ``, 0},
	}
	var c Cursor
	c.Reset([]byte(doc))
	for i, w := range want {
		k := c.Next()
		if got := (token{k, doc[c.At().Start:c.At().End], c.Depth()}); got != w {
			t.Fatalf("token %d: got %v, want %v", i, got, w)
		}
		if k == String {
			if raw, plain := c.Raw(); string(raw) != `x\n` || plain || c.TextLen() != 2 {
				t.Errorf("string: raw %q plain %v length %d", raw, plain, c.TextLen())
			}
		}
	}
}

func TestSyntaxErrorSaysWhere(t *testing.T) {
	rows := []struct {
		doc    string
		offset int
		atEnd  bool
		want   string
	}{
		{`{"a":}`, 5, false, "a value"},
		{`{"a" 1}`, 5, false, "a colon"},
		{`{"a":1 "b"}`, 7, false, "a comma or }"},
		{`[1 2]`, 3, false, "a comma or ]"},
		{`{"a":1,}`, 7, false, "a key in double quotes"},
		{`{"a":"x`, 7, true, "a closing quote"},
		{`{"a":tru`, 8, true, "true"},
		{`{"a":1} x`, 8, false, "nothing more"},
		{"{\"a\":\"x\ny\"}", 7, false, "no control characters within a string"},
		{`{"a":"\q"}`, 7, false, `one of "\/bfnrtu after a backslash`},
	}
	for _, row := range rows {
		var got *SyntaxError
		if err := verdict([]byte(row.doc)); !errors.As(err, &got) || !errors.Is(err, ErrNotJSON) {
			t.Fatalf("%q: %v", row.doc, err)
		}
		if got.Offset != row.offset || got.AtEnd != row.atEnd || got.Want != row.want {
			t.Errorf("%q: got %+v, want %+v", row.doc, *got, row)
		}
	}
}

func TestTextLenIsDecodedLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		quoted, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "ascii") {
			quoted = toASCII(s)
		}
		var c Cursor
		c.Reset(quoted)
		if k := c.Next(); k != String || c.TextLen() != len(s) {
			t.Fatalf("%s: kind %v, length %d, want %d", quoted, k, c.TextLen(), len(s))
		}
		if got := Decode(quoted, c.At()); got != s {
			t.Fatalf("%s: decoded to %q, want %q", quoted, got, s)
		}
	})
}

// A string that Cursor accepts is decoded as by encoding/json, and the output of AppendString is read back unchanged.
func TestDecodeAndEncodeStrings(t *testing.T) {
	for _, doc := range documents {
		var want string
		if json.Unmarshal([]byte(doc), &want) != nil || doc[0] != '"' {
			continue
		}
		if got := Decode([]byte(doc), Span{0, len(doc)}); got != want {
			t.Errorf("%q: got %q, want %q", doc, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := string(rapid.SliceOf(rapid.Byte()).Draw(t, "raw"))
		var got string
		if err := json.Unmarshal(AppendString(nil, raw), &got); err != nil {
			t.Fatal(err)
		}
		if want := string([]rune(raw)); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
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

func FuzzValid(f *testing.F) {
	for _, doc := range documents {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, want := verdict(data), json.Valid(data); (got == nil) != want {
			t.Fatalf("got %v, want valid %v", got, want)
		}
	})
}
