package send

import (
	"net/http"
	"slices"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// leg adds the edits of a request's leg, after those that keep a client from posing as a router.
func (a *Outgoing) leg(h http.Header, edits []prompt.Edit) []prompt.Edit {
	c := a.c
	switch {
	case a.trusts() || c.Body == nil:
	case c.Prompt.InsertAt != 0:
		members := handover.Withhold(c.member)
		a.s.noteWithheld(c, members)
		edits = c.set(edits, members)
	case len(c.withheld.edits) > 0:
		a.s.noteWithheld(c, []handover.Member{{Name: c.withheld.last}})
		edits = append(edits, c.withheld.edits...)
	}
	if a.Message == nil {
		return edits
	}
	for _, header := range a.Message.Header {
		setHeader(h, header)
	}
	return c.appendTo(c.set(edits, a.Message.Set), a.Message.Append)
}

// trusts reports whether the engine gets what the client says of hand-overs. On a leg the router alone speaks of them.
func (a *Outgoing) trusts() bool { return a.s.cfg.Transfers && a.Message == nil }

// noteWithheld logs, once a minute, that something of a client's was withheld: a router in front of this one would
// otherwise find out by wrong answers.
func (s *Sender) noteWithheld(c *Incoming, members []handover.Member) {
	if len(members) == 0 {
		return
	}
	minute := time.Now().Unix() / 60
	if last := s.withheld.Load(); last == minute || !s.withheld.CompareAndSwap(last, minute) {
		return
	}
	s.log.Warn("a member that is for routers was taken out of a client's request: trust.transfer_fields passes such "+
		"members and headers on", "request", c.ID, "member", members[0].Name)
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
