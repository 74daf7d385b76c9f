package jsonscan

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func spellString(t *rapid.T, out []byte, s string) []byte {
	switch rapid.IntRange(0, 3).Draw(t, "spelling") {
	case 0:
		return append(out, toASCII(s)...)
	case 1:
		quoted, _ := json.Marshal(s)
		return append(out, quoted...)
	case 2:
		out = append(out, '"')
		for _, r := range s {
			if r < 0x10000 {
				out = appendEscape(out, r)
			} else {
				out = utf8.AppendRune(out, r)
			}
		}
		return append(out, '"')
	}
	return AppendString(out, s)
}

var words = rapid.SampledFrom([]string{
	"", "a", "hello there", "naïve → no", "缓存命中", "😀", "\n\t\tif x {", `"quoted\"`, "\u2028<&>",
	strings.Repeat("long ", 60), "\x00\x1f", "{\"a\":1}",
})
