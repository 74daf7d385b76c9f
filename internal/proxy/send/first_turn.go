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

// tellFirstTurn says in the disaggregated_params of a request to TensorRT-LLM whether it is the first turn of its conversation, as
// PR 14744 has it, so that the engine can spread first turns over its ranks. It is the same for both schedule styles: whatever
// leg has these parameters carries it. A request without them is not given any: to an engine they would mean that it is split.
// What is in them already, or in an edit that sets them, stays as it is.
func (a *Outgoing) tellFirstTurn(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if !a.s.cfg.FirstTurn || a.d.Kind != fleet.KindTRTLLM || c.API != prompt.Chat && c.API != prompt.Completions || c.Body == nil {
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
		if with, err := prompt.SetMember(bytes.Clone(edits[i].With[:head]), edits[i].With[head:], isFirstTurn, value); err == nil {
			edits[i].With = with
		}
		return edits
	}
	if at == (jsonscan.Span{}) {
		return edits
	}
	with, err := prompt.SetMember(nil, c.Body.Bytes[at.Start:at.End], isFirstTurn, value)
	if err != nil { // no object: the engine may say so
		return edits
	}
	return append(edits, c.Prompt.SetField(disaggregatedParams, with))
}
