package send

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/prompt"
)

// body is the payload for this endpoint.
func (a *Outgoing) body(edits []prompt.Edit) *body.Payload {
	c := a.c
	// elsewhere, where engines do not read it
	named := c.Prompt.Model != "" || c.API.NamesModel() && c.Request.Model != ""
	if named && a.d.Model != c.Prompt.Model {
		edits = append(edits, c.Prompt.SetModel(a.d.Model))
	}
	edits = append(edits, c.inForm.edits(a.d.Model)...)
	if a.s.cfg.DropAttribution && c.Body != nil {
		if e, ok := c.Prompt.DropAttribution(c.Body.Bytes); ok {
			edits = append(edits, e)
		}
	}
	if len(edits) == 0 {
		return c.Body
	}
	a.sent = c.Body.Splice(edits, a.s.bodies)
	return a.sent
}

// lend gives the request to the endpoint its body. The transport has it until it closes it, and a until Withdraw. A
// hand-over id may be sent once only.
func (a *Outgoing) lend(out *http.Request, payload *body.Payload) {
	terms := body.Terms{
		Lean:     !a.s.cfg.NetHTTP && out.URL.Scheme != "https",
		Once:     !a.c.Repeatable(),
		OnlyOnce: a.Message != nil,
	}
	if lent := payload.Lend(out, terms); lent != nil {
		a.lent = lent
	}
}

// Withdraw releases the request body. The transport must have been told that its answer is not wanted.
func (a *Outgoing) Withdraw() {
	if a.lent != nil {
		_ = a.lent.Close()
		a.lent = nil
	}
	a.ReleaseCopy()
}
