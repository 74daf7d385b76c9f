package send

import (
	"strconv"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
)

const (
	disaggregatedParams = "disaggregated_params"
	isFirstTurn         = "is_first_turn"
)

// tellFirstTurn says in the disaggregated_params of a request to TensorRT-LLM whether it is the first turn of its
// conversation, as in PR 14744, so that the engine can spread first turns over its ranks. Both schedule styles treat it
// alike: each leg with these parameters has it, in the place of what the client says. A request without them gets none,
// since the engine would take it for a leg.
func (a *Outgoing) tellFirstTurn(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if !a.s.cfg.FirstTurn || a.d.Kind != fleet.KindTRTLLM || c.API != prompt.Chat && c.API != prompt.Completions ||
		c.Body == nil {
		return edits
	}
	edits, _ = a.setInDisagg(edits, isFirstTurn, strconv.AppendBool(nil, a.d.NewID), false)
	return edits
}
