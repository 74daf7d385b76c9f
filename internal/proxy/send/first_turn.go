package send

import (
	"bytes"
	"strconv"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

const (
	disaggregatedParams = "disaggregated_params"
	isFirstTurn         = "is_first_turn"
)

// tellFirstTurn says in the disaggregated_params of a request to TensorRT-LLM whether it is the first turn of its
// conversation, as in PR 14744, so that the engine can spread first turns over its ranks. Both schedule styles treat it
// alike: each leg with these parameters has it. A request without them gets none, since the engine would take it for a
// leg. A value from the client, or from another edit, is kept.
func (a *Outgoing) tellFirstTurn(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if !a.s.cfg.FirstTurn || a.d.Kind != fleet.KindTRTLLM || c.API != prompt.Chat && c.API != prompt.Completions ||
		c.Body == nil {
		return edits
	}
	value := strconv.AppendBool(nil, a.d.NewID)
	at := c.Prompt.Field(disaggregatedParams)
	inserted := jsonscan.AppendString(nil, disaggregatedParams)
	inserted = append(inserted, ':')
	for i := range edits {
		head := 0
		switch e := &edits[i]; {
		case at != (jsonscan.Span{}) && e.At == at:
		case e.At.Len() == 0 && bytes.HasPrefix(e.With, inserted):
			head = len(inserted)
		default:
			continue
		}
		if with, err := prompt.SetMember(bytes.Clone(edits[i].With[:head]), edits[i].With[head:],
			isFirstTurn, value); err == nil {
			edits[i].With = with
		}
		return edits
	}
	if at == (jsonscan.Span{}) {
		return edits
	}
	with, err := prompt.SetMember(nil, c.Body.Bytes[at.Start:at.End], isFirstTurn, value)
	if err != nil { // not an object: the engine may report it
		return edits
	}
	return append(edits, c.Prompt.SetField(disaggregatedParams, with))
}
