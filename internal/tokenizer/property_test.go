package tokenizer

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The model: patterns as lists of alternatives, each a list of atoms, matched with backtracking as a regular expression
// is.

// atom is a class of characters, from least to most times, as many as possible.
type atom struct {
	is          func(c class, text string) bool
	least, most int
}

const many = 1 << 30

func of(want class, least, most int) atom {
	return atom{func(c class, _ string) bool { return c&want != 0 }, least, most}
}

func notOf(avoid class, least, most int) atom {
	return atom{func(c class, _ string) bool { return c&avoid == 0 }, least, most}
}

func chars(set string, least, most int) atom {
	return atom{func(_ class, s string) bool { return strings.Contains(set, s) }, least, most}
}

// atEnd is (?!\S).
var atEnd = atom{least: -1}

func word(text string, anyCase bool) []atom {
	var out []atom
	for _, r := range text {
		set := string(r)
		if anyCase {
			set += strings.ToUpper(string(r))
			if r == 's' {
				set += "ſ"
			}
		}
		out = append(out, chars(set, 1, 1))
	}
	return out
}

func contractions(anyCase bool, before, after []atom) [][]atom {
	var out [][]atom
	for _, text := range []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		out = append(out, slices.Concat(before, word(text, anyCase), after))
	}
	return out
}

// match is the length of the match of atoms at the start of s, or -1.
func match(atoms []atom, s string) int {
	if len(atoms) == 0 {
		return 0
	}
	a := atoms[0]
	if a.least < 0 {
		if c, next := classAt(s, 0); next > 0 && c&space == 0 {
			return -1
		}
		return match(atoms[1:], s)
	}
	ends := []int{0}
	for len(ends) <= a.most {
		i := ends[len(ends)-1]
		c, next := classAt(s, i)
		if next == i || !a.is(c, s[i:next]) {
			break
		}
		ends = append(ends, next)
	}
	for n := len(ends) - 1; n >= a.least; n-- {
		if rest := match(atoms[1:], s[ends[n]:]); rest >= 0 {
			return ends[n] + rest
		}
	}
	return -1
}

// naive is the splitter of a list of alternatives.
func naive(alternatives [][]atom) splitter {
	first := func(s string) int {
		for _, a := range alternatives {
			if n := match(a, s); n > 0 {
				return n
			}
		}
		return 0
	}
	return func(s string) int {
		for i := 0; i < len(s); {
			if n := first(s[i:]); n > 0 {
				if i == 0 {
					return n
				}
				return i
			}
			_, i = classAt(s, i)
		}
		return len(s)
	}
}

func lineEnds(after string, symbol class) [][]atom {
	return [][]atom{
		{chars(" ", 0, 1), notOf(space|symbol, 1, many), chars(after, 0, many)},
		{of(space, 0, many), of(newline, 1, many)},
		{of(space, 1, many), atEnd},
		{of(space, 1, many)},
	}
}

func naiveWord(digits int, letters class) splitter {
	return naive(slices.Concat(
		contractions(true, nil, nil),
		[][]atom{{notOf(newline|letter|number, 0, 1), of(letters, 1, many)}, {of(number, 1, digits)}},
		lineEnds("\r\n", letters|number),
	))
}

func naiveCase(digits int, contracted bool) splitter {
	prefix := notOf(newline|letter|number, 0, 1)
	one := []atom{prefix, of(head, 0, many), of(tail, 1, many)}
	two := []atom{prefix, of(head, 1, many), of(tail, 0, many)}
	var out [][]atom
	for _, a := range [][]atom{one, two} {
		if contracted {
			out = append(out, contractions(true, a, nil)...)
		}
		out = append(out, a)
	}
	return naive(slices.Concat(out, [][]atom{{of(number, 1, digits)}}, lineEnds("\r\n/", letter|number)))
}

func models() map[string]splitter {
	ascii := chars("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 1, many)
	return map[string]splitter{
		patternGPT2: naive(slices.Concat(contractions(false, nil, nil), [][]atom{
			{chars(" ", 0, 1), of(letter, 1, many)},
			{chars(" ", 0, 1), of(number, 1, many)},
			{chars(" ", 0, 1), notOf(space|letter|number, 1, many)},
			{of(space, 1, many), atEnd},
			{of(space, 1, many)},
		})),
		patternCL100K: naiveWord(3, letter),
		patternQwen2:  naiveWord(1, letter),
		patternQwen35: naiveWord(1, letter|mark),
		patternO200K:  naiveCase(3, true),
		patternTekken: naiveCase(1, false),
		patternThree:  naive([][]atom{{of(number, 1, 3)}}),
		patternDeepSeek: naive([][]atom{
			{chars("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", 1, 1), ascii},
			{notOf(newline|letter|symbolic, 0, 1), of(letter|mark, 1, many)},
			{chars(" ", 0, 1), of(symbolic, 1, many), chars("\r\n", 0, many)},
			{of(space, 0, many), of(newline, 1, many)},
			{of(space, 1, many), atEnd},
			{of(space, 1, many)},
		}),
	}
}

// nasty are texts of the characters that the patterns tell apart.
func nasty() *rapid.Generator[string] {
	part := rapid.SampledFrom([]string{
		"a", "b", "s", "S", "t", "re", "VE", "ll", "m", "d", "X", "É", "ß", "ǅ", "ʰ", "ª", "你", "あ", "\u0301", "\u093e",
		"\u200d", "1", "22", "½", "٣", "Ⅷ", "'", "'s", "'LL", "'ſ", " ", "  ", "\n", "\r", "\r\n", "\t", "\u00a0",
		"\u3000", "\u2028", "!", ".", "/", "//", "_", "-", "(", "😀", "€", "\x00", "\x1c", "\xff", "\xe4\xbd", "{", "\"",
	})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "parts"), "")
	})
}

func TestSplittersAgainstBacktracking(t *testing.T) {
	all := models()
	for _, pattern := range slices.Sorted(maps.Keys(all)) {
		split := splitters[canonical(pattern)].split
		rapid.Check(t, func(t *rapid.T) {
			s := nasty().Draw(t, "text")
			if got, want := pieces(split, s), pieces(all[pattern], s); !slices.Equal(got, want) {
				t.Fatalf("%s\n%q\n got  %q\n want %q", pattern, s, got, want)
			}
		})
	}
}

// naiveBPE merges the pair of the lowest rank, the leftmost of equals, until none is left.
func naiveBPE(b *bpe, w string) []int32 {
	var ids []int32
	for i := range len(w) {
		if id := b.single[w[i]]; id != noToken {
			ids = append(ids, id)
		}
	}
	for {
		at, best := -1, merge{}
		for i := range len(ids) - 1 {
			if m, ok := b.merges[pairOf(ids[i], ids[i+1])]; ok && (at < 0 || m.rank < best.rank) {
				at, best = i, m
			}
		}
		if at < 0 {
			return ids
		}
		ids = slices.Replace(ids, at, at+2, best.token)
	}
}

func TestMergesAgainstTheNaiveWay(t *testing.T) {
	tok := load(t, "no_regex")
	rapid.Check(t, func(t *rapid.T) {
		w := strings.Repeat(nasty().Draw(t, "text"), rapid.IntRange(1, 30).Draw(t, "times"))
		want := naiveBPE(tok.bpe, w)
		if got := tok.bpe.append(nil, w); !slices.Equal(got, want) {
			t.Fatalf("%q\n got  %v\n want %v", w, got, want)
		}
		long := []int32{}
		for i := range len(w) {
			long = append(long, tok.bpe.single[w[i]])
		}
		if len(long) > 0 {
			if got := long[:tok.bpe.mergeLong(long)]; !slices.Equal(got, want) {
				t.Fatalf("with a heap: %q\n got  %v\n want %v", w, got, want)
			}
		}
	})
}

// texts are what the tokens of a tokenizer without added tokens stand for.
func texts(tok *Tokenizer) map[int32]string {
	out := map[int32]string{}
	for text, id := range tok.bpe.vocab {
		out[id] = text
	}
	return out
}

func bare(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok := load(t, name)
	tok.raw, tok.normalized = newMatcher(nil), newMatcher(nil)
	return tok
}

func decoded(of map[int32]string, ids []int32) string {
	var out strings.Builder
	for _, id := range ids {
		out.WriteString(of[id])
	}
	return out.String()
}

func FuzzEncode(f *testing.F) {
	var g golden
	readJSON(f, "golden.json", &g)
	for _, text := range g.Texts {
		f.Add(text)
	}
	f.Add("\xff\xfe\xc3\x28")
	var toks []*Tokenizer
	for _, name := range []string{"gpt2", "llama3", "qwen35", "o200k", "tekken", "deepseek", "digits", "no_regex"} {
		tok := bare(f, name)
		tok.nfc = false
		toks = append(toks, tok)
	}
	of := texts(toks[0])
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range toks {
			if got := decoded(of, tok.Encode(text, false)); got != text {
				t.Fatalf("%q comes back as %q", text, got)
			}
		}
	})
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		`{"version":"1.0","added_tokens":[{"id":3,"content":"<e>","special":true}],"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`,
		`{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{N}{1,3}"},"behavior":"Isolated"},{"type":"ByteLevel","use_regex":false}]},"model":{"vocab":{"a":0},"merges":[["a","a"]]}}`,
		`{"normalizer":{"type":"NFC"},"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}}]},"pre_tokenizer":{"type":"ByteLevel"},"model":{"vocab":{"a":-1}}}`,
		`{}`, `[]`, `{"model":null}`,
	} {
		f.Add([]byte(seed), "ab ab<e> 12")
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		tok, err := parse(file, &config{})
		if err != nil {
			return
		}
		if got := len(tok.Encode(text, true)); got > 3*len(text)+len(tok.before)+len(tok.after)+3 {
			t.Fatalf("%d bytes make %d tokens", len(text), got)
		}
	})
}
