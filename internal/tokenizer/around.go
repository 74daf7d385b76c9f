package tokenizer

import (
	"errors"
	"fmt"
	"strings"
)

// around reads post_processor: the tokens before and after a single text. Settings for them in tokenizer_config.json
// take precedence (transformers, update_post_processor). The Llama classes, which DeepSeek's models also use, have one
// at the beginning by default.
func around(p *part, cfg *config, id func(content string) (int32, bool)) (before, after []int32, err error) {
	llama := strings.HasPrefix(cfg.Class, "Llama") || strings.HasPrefix(cfg.Class, "CodeLlama")
	if !llama && cfg.AddBOS == nil && cfg.AddEOS == nil {
		if before, after, err = aroundPart(p); err != nil {
			return nil, nil, fmt.Errorf("post_processor: %w", err)
		}
		return before, after, nil
	}
	one := func(name string, add *bool, otherwise bool) ([]int32, error) {
		if add != nil {
			otherwise = *add
		}
		content := cfg.special[name]
		if !otherwise || content == "" {
			return nil, nil
		}
		tok, ok := id(content)
		if !ok {
			return nil, fmt.Errorf("tokenizer_config.json: %s %q is not in the vocabulary", name, content)
		}
		return []int32{tok}, nil
	}
	if before, err = one("bos_token", cfg.AddBOS, llama); err != nil {
		return nil, nil, err
	}
	if after, err = one("eos_token", cfg.AddEOS, false); err != nil {
		return nil, nil, err
	}
	return before, after, nil
}

func aroundPart(p *part) (before, after []int32, err error) {
	if p == nil {
		return nil, nil, nil
	}
	switch p.Type {
	case "ByteLevel":
		return nil, nil, nil // it changes offsets only
	case "Sequence":
		for i := range p.Processors {
			b, a, err := aroundPart(&p.Processors[i])
			if err != nil {
				return nil, nil, err
			}
			before, after = append(b, before...), append(after, a...) // a later one is outermost
		}
		return before, after, nil
	case "TemplateProcessing":
		return aroundTemplate(p)
	}
	return nil, nil, fmt.Errorf("type %q is not supported, only ByteLevel, TemplateProcessing and Sequence", p.Type)
}

func aroundTemplate(p *part) (before, after []int32, err error) {
	seen := false
	for _, piece := range p.Single {
		switch {
		case piece.Sequence != nil && !seen:
			seen = true
		case piece.SpecialToken != nil:
			tok, ok := p.SpecialTokens[piece.SpecialToken.ID]
			if !ok || len(tok.IDs) == 0 {
				return nil, nil, fmt.Errorf("TemplateProcessing: special token %q has no ids", piece.SpecialToken.ID)
			}
			for _, id := range tok.IDs {
				if id < 0 {
					return nil, nil, fmt.Errorf("TemplateProcessing: special token %q has the negative id %d",
						piece.SpecialToken.ID, id)
				}
			}
			if seen {
				after = append(after, tok.IDs...)
			} else {
				before = append(before, tok.IDs...)
			}
		default:
			return nil, nil, errors.New("TemplateProcessing: the template of a single text has a place that is no " +
				"special token, or more than one text")
		}
	}
	if !seen {
		return nil, nil, errors.New("TemplateProcessing: the template of a single text has no place for it")
	}
	return before, after, nil
}
