package proxy

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/prompt"
)

// body is the payload for this endpoint.
func (a *attempt) body(edits []prompt.Edit) *body.Payload {
	c := a.c
	if c.prompt.Model != "" && a.d.Model != c.prompt.Model {
		edits = append(edits, c.prompt.SetModel(a.d.Model))
	}
	if len(edits) == 0 {
		return c.body
	}
	a.sent = c.body.Splice(edits, c.p.bodies)
	return a.sent
}

// lend gives a request to the endpoint its body. The transport has it until it closes it, and a until withdraw. The id of a hand-over is used
// once.
func (a *attempt) lend(out *http.Request, body *body.Payload) {
	if lent := body.Lend(out, !a.c.repeatable(), a.message != nil); lent != nil {
		a.lent = lent
	}
}

// withdraw lets go of what the endpoint was sent. The transport must have been told that its answer is not wanted.
func (a *attempt) withdraw() {
	if a.lent != nil {
		_ = a.lent.Close()
		a.lent = nil
	}
	a.sent.Release()
	a.sent = nil
}

// letGo lets go of the body when the client has seen a byte of the answer, so that nothing can be retried, and no other leg may still send
// it. The transport keeps it until it has written it.
func (a *attempt) letGo() {
	c := a.c
	if c.body == nil || !c.split.told() {
		return
	}
	a.noteSpoken()
	a.sent.Release()
	a.sent = nil
	c.body.Release()
	c.body = nil
}
