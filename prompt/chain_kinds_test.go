package prompt

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestKindsStarts lists what counts as a beginning.
func TestKindsStarts(t *testing.T) {
	for _, row := range []struct {
		text           string
		starts, digits int
	}{
		{"", 0, 0},
		{"the quick brown fox", 4, 0},
		{"parseHTTPRequest", 2, 0}, // the end of an abbreviation is not known
		{"snake_case_name", 5, 0},
		{"if (x != nil) {\n\t\treturn\n}\n", 12, 0},
		{"a    b", 3, 0}, // a run of spaces is one
		{"a \n  b", 3, 0},
		{"12,345.67", 2, 7},
		{"==========", 1, 0},
		{"x1y2", 2, 2},
		{"“quoted” – yes", 5, 0},
	} {
		c := Chain{text: []byte(row.text)}
		var k TextKinds
		c.classifyBytes(&k, 0, len(c.text))
		if k.Starts != row.starts || k.Digits != row.digits {
			t.Errorf("%q: %d starts and %d digits, want %d and %d",
				row.text, k.Starts, k.Digits, row.starts, row.digits)
		}
	}
}

// TestKindsTogether: classifying eight bytes at once equals classifying byte by byte, and every byte has one kind.
func TestKindsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("aaZq  \n\t09.=(_\x00\x7f`{@["))).Draw(t, "text")
		for _, marks := range []string{"", "\xff", "\xf5", "\xc1"} {
			c := Chain{text: []byte(strings.ReplaceAll(text, "@", marks))}
			from := rapid.IntRange(0, len(c.text)).Draw(t, "from")
			var together, single TextKinds
			c.classify(&together, from, len(c.text))
			c.classifyBytes(&single, from, len(c.text))
			if together != single {
				t.Fatalf("from %d: %+v, one by one %+v", from, together, single)
			}
			if n := single.Latin + single.Code + single.CJK + single.Other; n != len(c.text)-from {
				t.Fatalf("%d bytes of %d", n, len(c.text)-from)
			}
		}
	})
}

// TestKindsBytes: in any text every byte has one kind, with and without samples.
func TestKindsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.String().Draw(t, "text"),
			rapid.SampledFrom([]int{1, 30, 900, 5000}).Draw(t, "times"))
		body, err := json.Marshal(map[string]any{"prompt": text})
		if err != nil {
			t.Fatal(err)
		}
		var p Parser
		var c Chain
		if _, err := p.ParseChain(Completions, body, func(string) string { return "" }, &c); err != nil {
			t.Fatal(err)
		}
		if k := c.Kinds; k.Latin+k.Code+k.CJK+k.Other != c.Bytes || k.Digits > k.Code || k.Digits < 0 || k.Starts < 0 ||
			k.Starts > c.Bytes {
			t.Fatalf("%+v of %d bytes", k, c.Bytes)
		}
	})
}
