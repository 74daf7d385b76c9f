package jsonscan

import (
	"strings"
	"testing"
	"unicode/utf8"

	fastutf8 "github.com/segmentio/asm/utf8"
	"pgregory.net/rapid"
)

// The strings of a Chain are those of encoding/json, however the reads of sixteen bytes divide them.
func TestQuotedOnto(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(words).Draw(t, "words"), "")
		doc := spellString(t, nil, text)
		pad := rapid.IntRange(0, 20).Draw(t, "pad")
		out := []byte("before")
		var c Cursor
		c.Reset([]byte(strings.Repeat(" ", pad) + string(doc) + strings.Repeat(" ", 20-pad)))
		c.Out = &out
		if k := c.Next(); k != String || c.Next() != End {
			t.Fatalf("%q: %v", doc, c.Err())
		}
		if string(out) != "before"+text || c.OutFrom != 6 {
			t.Fatalf("%q: got %q, want %q", doc, out[6:], text)
		}
	})
}

func TestEscapes(t *testing.T) {
	for b := range 256 {
		at := b - '"'
		got := at >= 0 && at < len(escapes) && escapes[at] != 0
		if got != isEscape[b] || got && escapes[at] != unescape(byte(b)) {
			t.Errorf("escape %q", rune(b))
		}
	}
}

// TestValidText checks the library that validates text by vector instructions.
func TestValidText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOf(rapid.OneOf(words, rapid.SampledFrom([]string{
			"中文字", "\u0800\u0fff\ud7ff\ue000", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe4\xb8", "\xff", "\xc1\x81",
			"\xf4\x90\x80\x80", "é", "한국어",
		}))).Draw(t, "text"), ""))
		if len(text) > 0 && rapid.Bool().Draw(t, "spoil") {
			text[rapid.IntRange(0, len(text)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		if got := fastutf8.Valid(text); got != utf8.Valid(text) {
			t.Fatalf("%q: %v", text, got)
		}
	})
}
