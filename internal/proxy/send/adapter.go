package send

import (
	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// SGLang lists its LoRA adapters as models, but computes its base model for a request whose model is one: it reads an
// adapter in lora_path, or after a colon in model ("base:adapter"; sglang, examples/runtime/lora.py, and
// OpenAIServingBase._resolve_lora_path).
const loraPath = "lora_path"

// ReadsAdapter reports whether an engine of a kind computes the adapter that a request of an API was placed for.
func ReadsAdapter(kind fleet.Kind, api prompt.API) bool {
	if kind != fleet.KindSGLang {
		return true
	}
	switch api {
	case prompt.Chat, prompt.Completions, prompt.Embeddings, prompt.Generate: // they have the member
		return true
	default:
		return false
	}
}

// tellAdapter adds the edit that names the adapter to SGLang, unless the client did.
func (a *Outgoing) tellAdapter(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if a.d.Kind != fleet.KindSGLang || !a.d.Adapter || a.d.Model == "" || !ReadsAdapter(a.d.Kind, c.API) ||
		!rawjson.IsNull(c.member(loraPath)) {
		return edits
	}
	return append(edits, c.Prompt.SetField(loraPath, jsonscan.AppendString(nil, a.d.Model)))
}
