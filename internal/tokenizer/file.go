package tokenizer

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/warmpath/warmpath/internal/wholefile"
)

// Largest files read, in bytes. The largest tokenizer.json in use has about 33 MB.
const (
	mostFile   = 64 << 20
	mostConfig = 8 << 20
)

// tokenizerFile is tokenizer.json of huggingface/tokenizers (format version 1.0).
type tokenizerFile struct {
	Version       string          `json:"version"`
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    *part           `json:"normalizer"`
	PreTokenizer  *part           `json:"pre_tokenizer"`
	PostProcessor *part           `json:"post_processor"`
	Model         json.RawMessage `json:"model"`
}

// part is a normalizer, a pre-tokenizer or a post-processor: the union of the fields of the supported kinds.
type part struct {
	Type string `json:"type"`

	Normalizers   []part `json:"normalizers"`
	Pretokenizers []part `json:"pretokenizers"`
	Processors    []part `json:"processors"`

	// ByteLevel
	AddPrefixSpace *bool `json:"add_prefix_space"`
	UseRegex       *bool `json:"use_regex"`

	// Split
	Pattern  *pattern `json:"pattern"`
	Behavior string   `json:"behavior"`
	Invert   bool     `json:"invert"`

	// Digits
	IndividualDigits bool `json:"individual_digits"`

	// TemplateProcessing
	Single        []piece                 `json:"single"`
	SpecialTokens map[string]specialToken `json:"special_tokens"`
}

// pattern is the separator of a Split: a regular expression or a plain string.
type pattern struct {
	Regex  *string `json:"Regex"`
	String *string `json:"String"`
}

// piece is a place in the template of a TemplateProcessing.
type piece struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

// specialToken is the value of a SpecialToken in a template.
type specialToken struct {
	IDs []int32 `json:"ids"`
}

// addedToken is a token that is found in the text before any splitting.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	Lstrip     bool   `json:"lstrip"`
	Rstrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// bpeModel is the model part of tokenizer.json.
type bpeModel struct {
	Type                    string            `json:"type"`
	Dropout                 *float64          `json:"dropout"`
	UnkToken                *string           `json:"unk_token"`
	ContinuingSubwordPrefix *string           `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string           `json:"end_of_word_suffix"`
	FuseUnk                 bool              `json:"fuse_unk"`
	ByteFallback            bool              `json:"byte_fallback"`
	IgnoreMerges            bool              `json:"ignore_merges"`
	Vocab                   map[string]int32  `json:"vocab"`
	Merges                  []json.RawMessage `json:"merges"`
}

// readOptional reads an optional file.
func readOptional(path string, most int64) ([]byte, error) {
	b, err := wholefile.Read(path, most)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return b, err
}
