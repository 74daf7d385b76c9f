package jsonscan

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// decodeNaive is decodeBlocks byte by byte.
func decodeNaive(src []byte) (out []byte, read int, high bool) {
	open := 0
	for ; len(src)-read >= 64; read += 64 {
		var block []byte
		escaped, beyond := open == 1, false
		for _, b := range src[read:][:64] {
			beyond = beyond || b >= 0x80
			switch {
			case b < ' ', b == '"' && !escaped, escaped && !isEscape[b]:
				return out, read - open, high
			case escaped:
				block = append(block, unescape(b))
				escaped = false
			case b == '\\':
				escaped = true
			default:
				block = append(block, b)
			}
		}
		out, high, open = append(out, block...), high || beyond, 0
		if escaped {
			open = 1
		}
	}
	return out, read - open, high
}

func TestDecodeBlocksIsNaive(t *testing.T) {
	if !deep {
		t.Skip("this processor has not what it takes")
	}
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
			strings.Repeat("plain ", 20), "Zürich 模型", "x", `\n`, `\"`, `\\`, `\\\\\\`, `\t\t\t`, `\/\b\f\r`,
			strings.Repeat(`\n`, 40), strings.Repeat(`\\`, 33),
		}), 0, 60).Draw(t, "pieces")
		src := []byte(strings.Join(pieces, ""))
		for range rapid.IntRange(0, 2).Draw(t, "faults") {
			if len(src) > 0 {
				src[rapid.IntRange(0, len(src)-1).Draw(t,
					"at")] = rapid.SampledFrom([]byte("\"\\\n\x00\x1f\x7f\x80\xff\xdc\xe2ua")).Draw(t, "byte")
			}
		}
		dst := make([]byte, len(src)+64)
		read, written, high := decodeBlocks(dst, src)
		want, wantRead, wantHigh := decodeNaive(src)
		if read != wantRead || string(dst[:written]) != string(want) || (high != 0) != wantHigh {
			t.Fatalf("%q:\nread %d, %q, %x\nwant %d, %q, %v", src, read, dst[:written], high, wantRead, want, wantHigh)
		}
	})
}
