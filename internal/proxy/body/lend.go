package body

import (
	"io"
	"net/http"

	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/prompt"
)

// longBody is the length from which an edited body is sent in pieces instead of being copied.
const longBody = 64 << 10

// Splice returns a payload with the edits made, whose memory is counted in the budget.
func (p *Payload) Splice(edits []prompt.Edit, in *Budget) *Payload {
	if len(p.Bytes) >= longBody {
		return p.inPieces(prompt.Pieces(p.Bytes, edits...))
	}
	room := len(p.Bytes) + 64
	for _, e := range edits {
		room += len(e.With)
	}
	buf := newBuffer(room)
	buf.bytes = prompt.Splice(buf.bytes, p.Bytes, edits...)
	in.Add(cap(buf.bytes))
	return newPayload(buf, in)
}

// Terms are the conditions under which a body is lent.
type Terms struct {
	Lean     bool // lent to the client of package h1, not to net/http's
	Once     bool // the transport must not send it again after a kept connection has failed
	OnlyOnce bool // nor over HTTP/2
}

// Lend gives a request its body, and returns a Closer that takes it back before the transport has closed it; nil for an
// empty body.
func (p *Payload) Lend(out *http.Request, terms Terms) io.Closer {
	if !terms.Lean && out.Header.Get("User-Agent") == "" {
		out.Header["User-Agent"] = []string{""} // keeps net/http from naming itself
	}
	out.ContentLength = int64(p.len())
	if out.ContentLength == 0 {
		out.Body = http.NoBody
		return nil
	}
	if terms.Lean {
		b := h1.NewBody(p.Bytes)
		if p.pieces != nil {
			b = h1.NewPieces(p.pieces)
		}
		if terms.Once || terms.OnlyOnce {
			b.Once()
		}
		p.refs.Add(1)
		out.Body = b.Of(p)
		return out.Body
	}
	out.Body = p.reader()
	if !terms.OnlyOnce {
		out.GetBody = func() (io.ReadCloser, error) {
			if r := p.reader(); r != nil {
				return r, nil
			}
			return nil, http.ErrBodyReadAfterClose
		}
	}
	return out.Body
}
