package send

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
)

// VLLMPriority is the header in which vLLM reads the priority before it reads the body (0.33.0, base/serving.py).
const VLLMPriority = "X-Vllm-Priority"

// capPriority withholds a priority of the engine's own that the client may not ask for: one that may put its request
// before those that name none. SMG, Dynamo and llm-d, which may stand in an engine's place, have headers too.
func (a *Outgoing) capPriority(h http.Header, edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if !c.CapsPriority {
		return edits
	}
	for _, name := range [...]string{
		"X-Smg-Priority", "X-Dynamo-Request-Priority", "X-Dynamo-Request-Strict-Priority",
		"X-Llm-D-Inference-Objective", "X-Gateway-Inference-Objective",
	} {
		if text := h[name]; len(text) > 0 && (len(text) > 1 || text[0] != "0") {
			delete(h, name)
		}
	}
	if text := h[VLLMPriority]; len(text) > 0 && (len(text) > 1 || sooner(text[0], vllmPrecedence)) {
		delete(h, VLLMPriority)
	}
	if c.Body == nil || c.Prompt.InsertAt == 0 {
		return edits
	}
	precedence, unsaid := a.precedence()
	if number := c.member("priority"); !rawjson.IsNull(number) && sooner(string(number), precedence) {
		edits = append(edits, c.Prompt.SetField("priority", []byte(unsaid)))
	}
	return edits
}

// vllmPrecedence: vLLM serves the lowest number first, and takes 0 where there is none.
var vllmPrecedence = fleet.Precedence{Order: fleet.LowestFirst}

// precedence is how the endpoint reads the priority in the body, and the value that says none. SGLang's is null, since
// there a request with 0 may come before one without; only its /v1/responses takes no null, and reads no priority. An
// engine of an unknown kind may be any of them: it gets 0, which none refuses.
func (a *Outgoing) precedence() (p fleet.Precedence, unsaid string) {
	switch {
	case a.d.Kind == fleet.KindVLLM:
		return vllmPrecedence, "0"
	case a.d.Kind == fleet.KindSGLang && a.c.API != prompt.Responses:
		return a.d.Precedence, "null"
	default:
		return fleet.Precedence{}, "0"
	}
}

// sooner reports whether a priority may put its request before those that name none. What is no whole number may.
func sooner(number string, p fleet.Precedence) bool {
	n, err := strconv.ParseInt(number, 10, 64) // of one out of range it is the nearest
	return err != nil && !errors.Is(err, strconv.ErrRange) || p.Sooner(n)
}
