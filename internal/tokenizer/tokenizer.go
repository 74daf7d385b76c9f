package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/text/unicode/norm"

	"github.com/warmpath/warmpath/internal/wholefile"
)

// Tokenizer is a model's tokenizer, and its chat template if it has one. It is safe for concurrent use.
type Tokenizer struct {
	// immutable
	bpe        *bpe
	stages     []stage
	nfc        bool
	raw        *matcher // added tokens found in the raw text
	normalized *matcher // added tokens found in the normalized text
	before     []int32  // the post-processor's tokens before and after a text
	after      []int32
	chat       *chat // nil without a chat template

	cache cache
}

// Load reads a tokenizer from a model's directory, or from the path of a tokenizer.json with tokenizer_config.json and
// chat_template.jinja beside it. Without these Request supports completions only. An error names the file and what it
// does not support.
func Load(path string) (*Tokenizer, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	b, err := wholefile.Read(path, mostFile)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	dir := filepath.Dir(path)
	cfg, err := readConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := parse(b, cfg)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	if t.chat, err = newChat(cfg); err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", dir, err)
	}
	return t, nil
}

// parse makes a tokenizer from tokenizer.json.
func parse(b []byte, cfg *config) (*Tokenizer, error) {
	var f tokenizerFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	if f.Version != "" && f.Version != "1.0" {
		return nil, fmt.Errorf("version %q is not supported, only 1.0", f.Version)
	}
	if len(f.Model) == 0 {
		return nil, fmt.Errorf("has no model")
	}
	t := &Tokenizer{}
	var err error
	if t.stages, err = newStages(f.PreTokenizer); err != nil {
		return nil, err
	}
	if t.nfc, err = isNFC(f.Normalizer); err != nil {
		return nil, err
	}
	var vocab map[string]int32
	if t.bpe, vocab, err = newBPE(f.Model, newAlphabet()); err != nil {
		return nil, err
	}
	added, err := addedTokens(f.AddedTokens, cfg, vocab)
	if err != nil {
		return nil, err
	}
	t.addTokens(added)
	id := func(content string) (int32, bool) {
		if i := slices.IndexFunc(added, func(a addedToken) bool { return a.Content == content }); i >= 0 {
			return added[i].ID, true
		}
		id, ok := vocab[content]
		return id, ok
	}
	if t.before, t.after, err = around(f.PostProcessor, cfg, id); err != nil {
		return nil, err
	}
	return t, nil
}

// isNFC reads normalizer: there is none, or NFC.
func isNFC(p *part) (bool, error) {
	if p == nil {
		return false, nil
	}
	switch p.Type {
	case "NFC":
		return true, nil
	case "Sequence":
		nfc := false
		for i := range p.Normalizers {
			n, err := isNFC(&p.Normalizers[i])
			if err != nil {
				return false, err
			}
			nfc = nfc || n
		}
		return nfc, nil
	}
	return false, fmt.Errorf("normalizer: type %q is not supported, only NFC or none", p.Type)
}

// addTokens makes the two matchers.
func (t *Tokenizer) addTokens(added []addedToken) {
	var raw, normalized []addedToken
	for _, a := range added {
		if !a.Normalized {
			raw = append(raw, a)
			continue
		}
		if t.nfc {
			a.Content = norm.NFC.String(a.Content)
		}
		normalized = append(normalized, a)
	}
	t.raw, t.normalized = newMatcher(raw), newMatcher(normalized)
}

// Encode returns the token ids of text. Added tokens in it are recognised, special ones too, as by servers. With
// special, the post-processor's tokens (usually one at the beginning) are added.
func (t *Tokenizer) Encode(text string, special bool) []int32 {
	out := make([]int32, 0, len(text)/3+8)
	if special {
		out = append(out, t.before...)
	}
	word := func(w string) { out = t.appendWord(out, w) }
	inner := func(s string, tok *addedToken) {
		if tok != nil {
			out = append(out, tok.ID)
			return
		}
		t.words(s, 0, word)
	}
	t.raw.sections(text, func(s string, tok *addedToken) {
		if tok != nil {
			out = append(out, tok.ID)
			return
		}
		if t.nfc {
			s = norm.NFC.String(s)
		}
		t.normalized.sections(s, inner)
	})
	if special {
		out = append(out, t.after...)
	}
	return out
}

// appendWord adds the tokens of one word.
func (t *Tokenizer) appendWord(out []int32, w string) []int32 {
	if len(w) > cachedBytes {
		return t.bpe.append(out, w)
	}
	if ids := t.cache.get(w); ids != nil {
		return append(out, ids...)
	}
	n := len(out)
	out = t.bpe.append(out, w)
	t.cache.put(w, slices.Clone(out[n:]))
	return out
}
