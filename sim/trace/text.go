package trace

import (
	"github.com/warmpath/warmpath/sim/chance"
	"github.com/warmpath/warmpath/sim/text"
)

// Text is a turn's prompt as plain text, TokenBytes per token: two turns' texts share what the trace says that their
// prompts share. With it a trace can be played over HTTP.
func (t *Trace) Text(turn int) string {
	tokens := t.Turns[turn].Prompt
	out := make([]byte, tokens*text.TokenBytes)
	for node := t.Turns[turn].node; tokens > 0; {
		n := &t.forest.nodes[node]
		from := min(int(n.start), tokens)
		for i := from; i < tokens; i++ {
			word(out[i*text.TokenBytes:(i+1)*text.TokenBytes], chance.Mix(n.seed^chance.Mix(uint64(i))))
		}
		tokens, node = from, n.parent
	}
	return string(out)
}

// word writes one token: a consonant, a vowel, a consonant and a space.
func word(to []byte, r uint64) {
	const consonants, vowels = "bcdfghjklmnpqrstvwxz", "aeiouy"
	to[0] = consonants[r%uint64(len(consonants))]
	to[1] = vowels[r>>16%uint64(len(vowels))]
	to[2] = consonants[r>>32%uint64(len(consonants))]
	to[3] = ' '
}
