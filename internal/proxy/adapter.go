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
	for _, s := range c.p.fleet.Status() {
		for _, m := range s.Models {
			switch {
			case m.ID == model && beside == "":
				return ""
			case s.Gone, s.Kind != fleet.KindSGLang, m.Parent == "", !c.allowed.Has(m.ID):
			case m.ID == beside, beside == "" && model == m.Parent+":"+m.ID:
				found = m.ID
			}
		}
	}
	return found
}
