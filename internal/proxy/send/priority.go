package send

import (
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
)

// VLLMPriority is the header in which vLLM reads the priority before it reads the body (0.33.0, base/serving.py).
const VLLMPriority = "X-Vllm-Priority"

// capPriority withholds a priority of the engine's own that the client may not ask for. vLLM serves the lowest number
// first. SGLang serves the highest first, or the lowest, by a flag that it does not tell; what a kind without a name
// does is not known either. SMG and Dynamo, which may stand in an engine's place, have headers too.
func (a *Outgoing) capPriority(h http.Header, edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if !c.CapsPriority {
		return edits
	}
	vllm := a.d.Kind == fleet.KindVLLM
	for _, name := range [...]string{
		VLLMPriority, "X-Smg-Priority", "X-Dynamo-Request-Priority", "X-Dynamo-Request-Strict-Priority",
	} {
		if text := h[name]; len(text) > 0 && (len(text) > 1 || !mayKeep(text[0], name == VLLMPriority)) {
			delete(h, name)
		}
	}
	if c.Body == nil || c.Prompt.InsertAt == 0 {
		return edits
	}
	if number := c.member("priority"); !rawjson.IsNull(number) && !mayKeep(string(number), vllm) {
		edits = append(edits, c.Prompt.SetField("priority", []byte{'0'}))
	}
	return edits
}

// mayKeep reports whether a priority puts its request before no other one: it is 0, or above where higher numbers go
// later.
func mayKeep(number string, later bool) bool {
	return number != "" && strings.Trim(number, "0") == "" || later && strings.Trim(number, "0123456789") == ""
}
