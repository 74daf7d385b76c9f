package proxy

import (
	"io"
	"net/http"

	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/prompt"
)

// longBody is the length from which a body that is changed in places is sent in pieces instead of being copied.
const longBody = 64 << 10

// body is the payload for this endpoint.
func (a *attempt) body(edits []prompt.Edit) *payload {
	c := a.c
	if c.prompt.Model != "" && a.d.Model != c.prompt.Model {
		edits = append(edits, c.prompt.SetModel(a.d.Model))
	}
	if len(edits) == 0 {
		return c.body
	}
	if len(c.body.bytes) >= longBody {
		a.sent = c.body.inPieces(prompt.Pieces(c.body.bytes, edits...))
		return a.sent
	}
	room := len(c.body.bytes) + 64
	for _, e := range edits {
		room += len(e.With)
	}
	buf := newBuffer(room)
	buf.bytes = prompt.Splice(buf.bytes, c.body.bytes, edits...)
	c.p.bodies.add(cap(buf.bytes))
	a.sent = newPayload(buf, &c.p.bodies)
	return a.sent
}

// lend gives a request to the endpoint its body. The transport has it until it closes it, and a until withdraw.
func (a *attempt) lend(out *http.Request, body *payload) {
	out.ContentLength = int64(body.len())
	if out.ContentLength == 0 {
		out.Body = http.NoBody
		return
	}
	if out.URL.Scheme == "http" {
		b := h1.NewBody(body.bytes)
		if body.pieces != nil {
			b = h1.NewPieces(body.pieces)
		}
		if !a.c.repeatable() || a.message != nil { // the id of a hand-over is used once
			b.Once()
		}
		body.refs.Add(1)
		out.Body = b.Of(body)
		a.lent = out.Body
		return
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header["User-Agent"] = []string{""} // keeps net/http from naming itself
	}
	out.Body = body.reader()
	a.lent = out.Body
	if a.message == nil {
		out.GetBody = func() (io.ReadCloser, error) {
			if r := body.reader(); r != nil {
				return r, nil
			}
			return nil, http.ErrBodyReadAfterClose
		}
	}
}

// withdraw lets go of what the endpoint was sent. The transport must have been told that its answer is not wanted.
func (a *attempt) withdraw() {
	if a.lent != nil {
		_ = a.lent.Close()
		a.lent = nil
	}
	a.sent.release()
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
	a.sent.release()
	a.sent = nil
	c.body.release()
	c.body = nil
}
