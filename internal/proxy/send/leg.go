package send

import (
	"net/http"
	"slices"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// leg adds the edits of a request's leg. For a whole request it adds those that keep a client from posing as a router.
func (a *Outgoing) leg(h http.Header, edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if a.d.Why != "" {
		dropOverrides(h)
	}
	if a.Message == nil {
		if a.d.Why == "" || c.Body == nil || c.Prompt.InsertAt == 0 {
			return edits
		}
		x := a.s.Handoff(c)
		if conn := a.s.Connector(a.d.Kind); conn != nil {
			return c.set(edits, conn.Withhold(&x))
		}
		for _, conn := range handover.Connectors() { // the engine may be of any kind
			edits = c.set(edits, conn.Withhold(&x))
		}
		return edits
	}
	for _, header := range a.Message.Header {
		setHeader(h, header)
	}
	if a.d.Leg == fleet.LegPrefill || a.Message.First != nil || a.reads {
		delete(h, "Accept-Encoding") // the reply is read
	}
	return c.appendTo(c.set(edits, a.Message.Set), a.Message.Append)
}

// set adds the edits that set members of the body, instead of earlier edits of them.
func (c *Incoming) set(edits []prompt.Edit, members []handover.Member) []prompt.Edit {
	for _, m := range members {
		e := c.Prompt.SetField(m.Name, m.JSON)
		if i := slices.IndexFunc(edits, func(o prompt.Edit) bool { return o.At == e.At }); i >= 0 && e.At.Len() > 0 {
			edits[i] = e
			continue
		}
		edits = append(edits, e)
	}
	return edits
}

// appendTo adds the edits that append values to lists of the body, each with at least one element.
func (c *Incoming) appendTo(edits []prompt.Edit, members []handover.Member) []prompt.Edit {
	for _, m := range members {
		at := c.Prompt.Field(m.Name)
		end := jsonscan.Span{Start: at.End - 1, End: at.End - 1}
		edits = append(edits, prompt.Edit{At: end, With: append([]byte{','}, m.JSON...)})
	}
	return edits
}
