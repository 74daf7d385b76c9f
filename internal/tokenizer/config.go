package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
)

// config has the settings of tokenizer_config.json and chat_template.jinja.
type config struct {
	Class        string                 `json:"tokenizer_class"`
	AddBOS       *bool                  `json:"add_bos_token"`
	AddEOS       *bool                  `json:"add_eos_token"`
	AddedTokens  map[string]*addedToken `json:"added_tokens_decoder"`
	ChatTemplate json.RawMessage        `json:"chat_template"` // a string, or a list of name and template

	special  map[string]string // bos_token and others, by name
	template string            // chat_template.jinja
	model    string            // model_type of config.json
}

// specialNames are the tokens that a chat template may use (transformers,
// SpecialTokensMixin.SPECIAL_TOKENS_ATTRIBUTES).
func specialNames() []string {
	return []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}
}

// readConfig reads the files beside tokenizer.json. All are optional.
func readConfig(dir string) (*config, error) {
	cfg := &config{special: map[string]string{}}
	path := filepath.Join(dir, "tokenizer_config.json")
	b, err := readOptional(path, mostConfig)
	if err != nil {
		return nil, err
	}
	if b != nil {
		if err := cfg.read(b); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if b, err = readOptional(filepath.Join(dir, "chat_template.jinja"), mostConfig); err != nil {
		return nil, err
	}
	cfg.template = string(b)
	path = filepath.Join(dir, "config.json")
	if b, err = readOptional(path, mostConfig); err != nil {
		return nil, err
	}
	if b != nil {
		var m struct {
			Type string `json:"model_type"`
		}
		if err := json.Unmarshal(b, &m); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		cfg.model = m.Type
	}
	return cfg, nil
}

func (c *config) read(b []byte) error {
	if err := json.Unmarshal(b, c); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	for _, name := range specialNames() {
		raw, ok := all[name]
		if !ok || string(raw) == "null" {
			continue
		}
		var s string
		if json.Unmarshal(raw, &s) != nil {
			var tok addedToken
			if err := json.Unmarshal(raw, &tok); err != nil {
				return fmt.Errorf("%s is neither a string nor a token", name)
			}
			s = tok.Content
		}
		c.special[name] = s
	}
	return nil
}

// addedTokens are the added tokens of tokenizer.json, with those that tokenizer_config.json adds or changes, by id.
func addedTokens(file []addedToken, cfg *config, vocab map[string]int32) ([]addedToken, error) {
	byContent := map[string]addedToken{}
	for _, a := range file {
		byContent[a.Content] = a
	}
	for _, key := range slices.Sorted(maps.Keys(cfg.AddedTokens)) {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || cfg.AddedTokens[key] == nil {
			return nil, fmt.Errorf("added_tokens_decoder: %q is not a token id", key)
		}
		a := *cfg.AddedTokens[key]
		a.ID = int32(id)
		if was, ok := byContent[a.Content]; ok && was.ID != a.ID {
			return nil, fmt.Errorf("added token %q has id %d here and %d in tokenizer_config.json",
				a.Content, was.ID, a.ID)
		}
		byContent[a.Content] = a
	}
	var out []addedToken
	for _, content := range slices.Sorted(maps.Keys(byContent)) {
		a := byContent[content]
		switch id, ok := vocab[content]; {
		case content == "":
			return nil, errors.New("added_tokens: one has no content")
		case a.ID < 0:
			return nil, fmt.Errorf("added_tokens: %q has the negative id %d", content, a.ID)
		case ok && id != a.ID:
			return nil, fmt.Errorf("added_tokens: %q has id %d, and %d in the vocabulary", content, a.ID, id)
		}
		out = append(out, a)
	}
	return out, nil
}
