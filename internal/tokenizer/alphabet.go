package tokenizer

// alphabet is GPT-2's encoding of bytes as printable characters (openai/gpt-2, src/encoder.py), used for the vocabulary
// and the merges of a byte-level tokenizer. Printable bytes of Latin-1 are themselves, the others are U+0100 and
// following, in order.
type alphabet struct {
	byte map[rune]byte
}

func newAlphabet() *alphabet {
	a := &alphabet{byte: make(map[rune]byte, 256)}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			r = next
			next++
		}
		a.byte[r] = byte(b)
	}
	return a
}

// bytes decodes s; false if s is not in the alphabet.
func (a *alphabet) bytes(s string) (string, bool) {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		b, ok := a.byte[r]
		if !ok {
			return "", false
		}
		out = append(out, b)
	}
	return string(out), true
}
