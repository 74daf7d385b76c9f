package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// passNaive is pass byte by byte.
func passNaive(d []byte, i int) (passed, escapes, open int) {
	for ; len(d)-i-passed >= 64; passed += 64 {
		found, escaped := 0, open == 1
		for _, b := range d[i+passed:][:64] {
			switch {
			case b < ' ', b == '"' && !escaped, escaped && !isEscape[b]:
				return passed, escapes, open
			case escaped:
				found++
				escaped = false
			default:
				escaped = b == '\\'
			}
		}
		escapes += found
		open = 0
		if escaped {
			open = 1
		}
	}
	return passed, escapes, open
}

// longText is text of some hundred bytes in which every kind of byte is likely, in runs and alone.
var longText = rapid.Custom(func(t *rapid.T) []byte {
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
		strings.Repeat("plain ", 20), "Zürich 模型", "x", `\n`, `\"`, `\\`, `\\\\\\`, `\t\t\t`, `\/\b\f\r`, `\u00e9`,
		strings.Repeat(`\n`, 40), strings.Repeat(`\\`, 33),
	}), 0, 60).Draw(t, "pieces")
	text := []byte(strings.Join(pieces, ""))
	for range rapid.IntRange(0, 2).Draw(t, "faults") {
		if len(text) > 0 {
			text[rapid.IntRange(0, len(text)-1).Draw(t,
				"at")] = rapid.SampledFrom([]byte("\"\\\n\x00\x1f\x7f\x80\xffu")).Draw(t, "byte")
		}
	}
	return text
})

func TestPassIsNaive(t *testing.T) {
	if !wide {
		t.Skip("this processor has no wide steps that we know of")
	}
	rapid.Check(t, func(t *rapid.T) {
		d := longText.Draw(t, "text")
		if len(d) == 0 {
			return
		}
		i := rapid.IntRange(0, len(d)-1).Draw(t, "from")
		passed, escapes, open := pass(d, i)
		if p, e, o := passNaive(d, i); p != passed || e != escapes || o != open {
			t.Errorf("pass from %d = %d, %d, %d, want %d, %d, %d", i, passed, escapes, open, p, e, o)
		}
	})
}

// TestEachByteAtEachPlace puts every byte, alone and after a backslash, at every position of a long string.
func TestEachByteAtEachPlace(t *testing.T) {
	var c Cursor
	for at := range 200 {
		for b := range 256 {
			for _, before := range []string{"", `\`, `\\`} {
				text := strings.Repeat("a", at) + before + string([]byte{byte(b)}) + strings.Repeat("z", 140-at%70)
				doc := []byte(`"` + text + `"`)
				c.Reset(doc)
				got := c.Next() == String && c.Next() == End
				if want := json.Valid(doc); got != want {
					t.Fatalf("%#02x at %d after %q: valid %v, want %v", b, at, before, got, want)
				}
			}
		}
	}
}

// TestLongStrings compares validity and decoded length with encoding/json's.
func TestLongStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := longText.Draw(t, "text")
		doc := append(append([]byte(`"`), text...), '"')
		var c Cursor
		c.Reset(doc)
		got := c.Next() == String
		length := c.TextLen()
		got = got && c.Next() == End
		if want := json.Valid(doc); got != want {
			t.Fatalf("%q: valid %v, want %v", doc, got, want)
		}
		var s string
		if got && json.Unmarshal(doc, &s) == nil && bytes.IndexByte(doc, 'u') < 0 &&
			!strings.ContainsRune(s, '\ufffd') && length != len(s) {
			t.Errorf("%q: TextLen %d, want %d", doc, length, len(s))
		}
	})
}
