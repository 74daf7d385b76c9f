package proxy

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/prompt"
)

// body is the payload for this endpoint.
func (a *outgoing) body(edits []prompt.Edit) *body.Payload {
	c := a.c
	if c.prompt.Model != "" && a.d.Model != c.prompt.Model {
		edits = append(edits, c.prompt.SetModel(a.d.Model))
	}
	if len(edits) == 0 {
		return c.body
	}
	a.sent = c.body.Splice(edits, a.s.bodies)
	return a.sent
}

// lend gives a request to the endpoint its body. The transport has it until it closes it, and a until withdraw. The id of a hand-over is used
// once.
func (a *outgoing) lend(out *http.Request, body *body.Payload) {
	if lent := body.Lend(out, !a.c.repeatable(), a.message != nil); lent != nil {
		a.lent = lent
	}
}

// withdraw lets go of what the endpoint was sent. The transport must have been told that its answer is not wanted.
func (a *outgoing) withdraw() {
	if a.lent != nil {
		_ = a.lent.Close()
		a.lent = nil
	}
	a.sent.Release()
	a.sent = nil
}
