package trace

import (
	"math"

	"github.com/warmpath/warmpath/sim/chance"
)

// Text is a turn's prompt as plain text of whole words, for an engine that counts tokenBytes bytes of it as a token
// (text.TokenBytes for simulated ones): two turns' texts share what the trace says that their prompts share. With it a
// trace can be played over HTTP.
func (t *Trace) Text(turn int, tokenBytes float64) string {
	words := wordsOf(t.Turns[turn].Prompt, tokenBytes)
	out := make([]byte, words*wordBytes)
	for node := t.Turns[turn].node; words > 0; {
		n := &t.forest.nodes[node]
		from := min(wordsOf(int(n.start), tokenBytes), words)
		writeWords(out, n.seed, from, words)
		words, node = from, n.parent
	}
	return string(out)
}

// Words are that many words as those of Text.
func Words(seed uint64, n int) string {
	out := make([]byte, n*wordBytes)
	writeWords(out, seed, 0, n)
	return string(out)
}

const wordBytes = 4

// wordsOf is how many words make so many tokens: one at least.
func wordsOf(tokens int, tokenBytes float64) int {
	return int(math.Ceil(float64(tokens) * tokenBytes / wordBytes))
}

// writeWords writes the words of a seed from one number to another to their places.
func writeWords(to []byte, seed uint64, from, end int) {
	for i := from; i < end; i++ {
		word(to[i*wordBytes:(i+1)*wordBytes], chance.Mix(seed^chance.Mix(uint64(i))))
	}
}

// word writes one word: a consonant, a vowel, a consonant and a space.
func word(to []byte, r uint64) {
	const consonants, vowels = "bcdfghjklmnpqrstvwxz", "aeiouy"
	to[0] = consonants[r%uint64(len(consonants))]
	to[1] = vowels[r>>16%uint64(len(vowels))]
	to[2] = consonants[r>>32%uint64(len(consonants))]
	to[3] = ' '
}
