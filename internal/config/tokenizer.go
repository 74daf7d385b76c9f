package config

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/warmpath/warmpath/internal/wholefile"
)

// Tokenizer is the location of the engines' tokenizer, and its use.
type Tokenizer struct {
	Path    string // directory or tokenizer.json; "" for none
	Field   string // that names it
	Harmony bool   // chats are not tokenized: the engine renders them in a format of its own
}

// Tokenizer is kv_events.tokenizer, or the tokenizer of the TensorRT-LLM policies in use.
func (c Config) Tokenizer() Tokenizer {
	named, harmony := c.tokenizers()
	if len(named) == 0 {
		return Tokenizer{}
	}
	t := named[0]
	if harmony != nil {
		t.Harmony = *harmony
	} else {
		t.Harmony = gptOSS(t.Path)
	}
	return t
}

// tokenizers are all those configured, the one that takes precedence first, and the first use_harmony that is set.
func (c Config) tokenizers() (out []Tokenizer, harmony *bool) {
	if p := c.KVEvents.Tokenizer; p != "" {
		out = append(out, Tokenizer{Path: p, Field: "kv_events.tokenizer"})
	}
	kv, conv := &c.Policy.TRTLLM.KVCacheAware, &c.Policy.TRTLLM.Conversation
	for _, name := range []string{c.Policy.Name, c.Disaggregation.PrefillPolicy, c.Disaggregation.DecodePolicy} {
		at, dir, model, says := "policy.trtllm.kv_cache_aware.", kv.TokenizerDir, kv.ModelPath, kv.UseHarmony
		switch name {
		case "trtllm.kv_cache_aware":
		case "trtllm.conversation":
			at, dir, model, says = "policy.trtllm.conversation.", conv.TokenizerDir, conv.ModelPath, conv.UseHarmony
		default:
			continue
		}
		harmony = cmp.Or(harmony, says)
		switch {
		case dir != "":
			out = append(out, Tokenizer{Path: dir, Field: at + "tokenizer_dir"})
		case model != "":
			out = append(out, Tokenizer{Path: model, Field: at + "model_path"})
		}
	}
	return out, harmony
}

func (c Config) checkTokenizers() (faults []error) {
	named, _ := c.tokenizers()
	for _, n := range named {
		if n.Path != named[0].Path {
			faults = append(faults, fault(n.Field, "is %q and %s is %q; one tokenizer serves all engines",
				n.Path, named[0].Field, named[0].Path))
		}
	}
	return faults
}

// checkTokenizerFile reports a missing tokenizer. Its content is read when the router starts.
func (c Config) checkTokenizerFile() error {
	t := c.Tokenizer()
	if t.Path == "" {
		return nil
	}
	st, err := os.Stat(t.Path)
	if err == nil && st.IsDir() {
		_, err = os.Stat(filepath.Join(t.Path, "tokenizer.json"))
	}
	if err != nil {
		return fault(t.Field, "%w", err)
	}
	return nil
}

// gptOSS reports whether the model of a tokenizer is of the family whose chats TensorRT-LLM renders in harmony's
// format.
func gptOSS(path string) bool {
	if st, err := os.Stat(path); err == nil && !st.IsDir() {
		path = filepath.Dir(path)
	}
	b, err := wholefile.Read(filepath.Join(path, "config.json"), 1<<20)
	var model struct {
		Type string `json:"model_type"`
	}
	return err == nil && json.Unmarshal(b, &model) == nil && model.Type == "gpt_oss"
}
