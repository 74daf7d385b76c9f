package tokenizer

import (
	"runtime"
	"strings"
	"testing"
)

// TestLongTexts encodes texts that repeat something for 256 KiB, each of which a careless splitter, search or merge
// would go through again and again: time in the square of the length would not end before the test's deadline.
func TestLongTexts(t *testing.T) {
	const perByte = 160
	rows := []struct{ name, again string }{
		{"letters", "a"},
		{"capitals", "A"},
		{"capitals and one small letter", strings.Repeat("A", 1<<17) + "a"},
		{"digits", "1"},
		{"spaces", " "},
		{"line breaks", "\n"},
		{"spaces and line breaks", " \n\t"},
		{"signs", "!"},
		{"quotes", "'"},
		{"contractions", "'s"},
		{"marks", "\u0301"},
		{"Chinese", "你好"},
		{"bytes that are no text", "\xff"},
		{"control characters", "\x00"},
		{"words", "the cat sat on the mat, "},
		{"beginnings of an added token", "<|en"},
		{"added tokens", "<|end|> "},
	}
	for _, name := range []string{"gpt2", "llama3", "qwen35", "o200k", "tekken", "deepseek"} {
		tok := load(t, name)
		tok.Encode("çš 你", false) // makes the table of character classes
		for _, r := range rows {
			t.Run(name+"/"+r.name, func(t *testing.T) {
				text := strings.Repeat(r.again, max(1, 1<<18/len(r.again)))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				ids := tok.Encode(text, false)
				runtime.ReadMemStats(&after)
				if got := (after.TotalAlloc - before.TotalAlloc) / uint64(len(text)); got > perByte {
					t.Errorf("%d bytes allocated for each byte of the text, at most %d wanted", got, perByte)
				}
				if len(ids) == 0 || len(ids) > 2*len(text) {
					t.Errorf("%d tokens of %d bytes", len(ids), len(text))
				}
			})
		}
	}
}
