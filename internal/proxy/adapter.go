package proxy

import (
	"encoding/json"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/send"
)

// adapterFor is the LoRA adapter that a request names to SGLang other than as its model: in lora_path, or after its
// base model and a colon (OpenAIServingBase._resolve_lora_path). The request goes to an engine that has it. "" is for
// none, and for one that no SGLang engine lists or that the caller may not use.
func (c *call) adapterFor(model string) string {
	if !send.ReadsAdapter(fleet.KindSGLang, c.API) {
		return ""
	}
	beside := ""
	if at := c.Prompt.Field("lora_path"); at.End > at.Start {
		if json.Unmarshal(c.Body.Bytes[at.Start:at.End], &beside) != nil {
			return "" // a list: one for each of several prompts
		}
	}
	if beside == "" && !strings.Contains(model, ":") {
		return ""
	}
	found := ""
	c.p.fleet.EachModel(func(kind fleet.Kind, id, parent string) bool {
		switch {
		case id == model && beside == "":
			found = ""
			return false
		case kind != fleet.KindSGLang, parent == "", !c.allowed.Has(id):
		case id == beside, beside == "" && len(model) == len(parent)+1+len(id) && model == parent+":"+id:
			found = id
		}
		return true
	})
	return found
}
