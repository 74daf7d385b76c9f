package tokenizer

import (
	"errors"
	"fmt"
	"strings"
)

// The supported patterns, as written in tokenizer.json. Some files write the contractions out, some make the
// quantifiers possessive: the matches are the same.
const (
	patternGPT2     = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternCL100K   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2    = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen35   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternO200K    = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternTekken   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternThree    = `\p{N}{1,3}`
	patternCJK      = `[一-龥぀-ゟ゠-ヿ]+`
	patternDeepSeek = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
		"[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)

// splitters are the splitters of the supported patterns, by canonical.
var splitters = map[string]known{
	canonical(patternGPT2):     {split: gpt2, whole: true},
	canonical(patternCL100K):   {split: wordPattern{digits: 3, word: letter}.split, whole: true},
	canonical(patternQwen2):    {split: wordPattern{digits: 1, word: letter}.split, whole: true},
	canonical(patternQwen35):   {split: wordPattern{digits: 1, word: letter | mark}.split, whole: true},
	canonical(patternO200K):    {split: casePattern{digits: 3, contractions: true}.split, whole: true},
	canonical(patternTekken):   {split: casePattern{digits: 1}.split, whole: true},
	canonical(patternThree):    {split: numbers(3)},
	canonical(patternCJK):      {split: hanAndKana},
	canonical(patternDeepSeek): {split: deepSeek},
}

// known is a supported pattern: whole, if its matches cover every text.
type known struct {
	split splitter
	whole bool
}

// canonical is a pattern in one spelling. Possessive quantifiers become greedy: in the supported patterns no match
// depends on backtracking. Line breaks may be literal.
func canonical(pattern string) string {
	return strings.NewReplacer(
		`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`, `(?i:'s|'t|'re|'ve|'m|'ll|'d)`,
		"\r", `\r`, "\n", `\n`,
	).Replace(pattern)
}

// stage is one pre-tokenizer: its splitter, nil for none, and whether it adds a leading space.
type stage struct {
	split splitter
	space bool
}

// newStages reads pre_tokenizer.
func newStages(p *part) ([]stage, error) {
	if p == nil {
		return nil,
			errors.New("pre_tokenizer: there is none, so this is no byte-level BPE (SentencePiece is not supported)")
	}
	stages, byteLevel, err := appendStages(nil, false, p)
	if err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if !byteLevel {
		return nil,
			errors.New("pre_tokenizer: has no ByteLevel, so this is no byte-level BPE (SentencePiece is not supported)")
	}
	return stages, nil
}

func appendStages(stages []stage, byteLevel bool, p *part) ([]stage, bool, error) {
	if byteLevel {
		return nil, false, fmt.Errorf("%s after ByteLevel is not supported", p.Type)
	}
	switch p.Type {
	case "Sequence":
		for i := range p.Pretokenizers {
			var err error
			if stages, byteLevel, err = appendStages(stages, byteLevel, &p.Pretokenizers[i]); err != nil {
				return nil, false, err
			}
		}
		return stages, byteLevel, nil
	case "ByteLevel":
		s := stage{space: p.AddPrefixSpace == nil || *p.AddPrefixSpace}
		if p.UseRegex == nil || *p.UseRegex {
			s.split = gpt2
		}
		return append(stages, s), true, nil
	case "Digits":
		most := 0
		if p.IndividualDigits {
			most = 1
		}
		return append(stages, stage{split: numbers(most)}), false, nil
	case "Split":
		s, err := newSplit(p)
		return append(stages, s), false, err
	}
	return nil, false, fmt.Errorf("type %q is not supported, only ByteLevel, Split, Digits and Sequence", p.Type)
}

// newSplit reads a Split.
func newSplit(p *part) (stage, error) {
	if p.Pattern == nil || p.Pattern.Regex == nil {
		return stage{}, errors.New("of a Split only a Regex pattern is supported")
	}
	k, ok := splitters[canonical(*p.Pattern.Regex)]
	if !ok {
		return stage{}, fmt.Errorf("the pattern %q of a Split is not known, and what it splits cannot be guessed",
			*p.Pattern.Regex)
	}
	switch {
	case p.Behavior == "Isolated" && !p.Invert:
	case p.Behavior == "Isolated" && k.whole, p.Behavior == "Removed" && p.Invert && k.whole:
		// The matches cover the text, so there is nothing between them to keep or to remove.
	default:
		return stage{}, fmt.Errorf("the behavior %q of a Split, with invert %v, is not supported", p.Behavior, p.Invert)
	}
	return stage{split: k.split}, nil
}

// words passes the pieces of text to yield, split by the stages from at on.
func (t *Tokenizer) words(text string, at int, yield func(word string)) {
	if at == len(t.stages) {
		yield(text)
		return
	}
	st := &t.stages[at]
	if st.space && text[0] != ' ' {
		text = " " + text
	}
	if st.split == nil {
		t.words(text, at+1, yield)
		return
	}
	for len(text) > 0 {
		n := st.split(text)
		t.words(text[:n], at+1, yield)
		text = text[n:]
	}
}
