package body

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"

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

// Lend gives a request its body, and returns a Closer that takes it back before the transport has closed it; nil where
// there is nothing to take back.
func (p *Payload) Lend(out *http.Request, terms Terms) io.Closer {
	out.ContentLength = int64(p.len())
	if terms.Lean {
		return p.lendLean(out, terms)
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header["User-Agent"] = []string{""} // keeps net/http from naming itself
	}
	if !terms.Once && !terms.OnlyOnce {
		// an empty list is not sent, and tells net/http that a kept connection may have ended under the request
		if _, ok := out.Header["X-Idempotency-Key"]; !ok {
			out.Header["X-Idempotency-Key"] = nil
		}
	}
	s := &sendings{of: p}
	s.bound(out)
	if out.ContentLength == 0 {
		out.Body = http.NoBody
		return s
	}
	out.Body, _ = s.next()
	if !terms.OnlyOnce {
		out.GetBody = s.next
	}
	return s
}

// lendLean lends the body to the client of package h1.
func (p *Payload) lendLean(out *http.Request, terms Terms) io.Closer {
	if out.ContentLength == 0 {
		out.Body = http.NoBody
		return nil
	}
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

// sendings are those of a request by net/http. Over HTTP/2 it repeats one that the endpoint refused, or whose
// connection the endpoint was closing, seven times in a minute and then, where the last connection has no room, from
// the beginning, while the router cannot ask another endpoint; and it does not close each body that it gets for that.
type sendings struct {
	of     *Payload
	cancel context.CancelCauseFunc // ends the request

	mu    sync.Mutex
	n     int            // those that have begun
	last  *payloadReader // the only one that is open
	ended bool
}

// mostSendings are done within a second: the first repetition comes at once, the next a second later. That is enough
// for a burst at an endpoint that takes few streams and has not said yet how many.
const mostSendings = 3

var errRefused = fmt.Errorf("refused unread %d times", mostSendings)

// bound has the request counted whenever it is sent, and ended as it is given a connection once more. A body ends it
// sooner, since net/http asks for it before it waits.
func (s *sendings) bound(out *http.Request) {
	ctx, cancel := context.WithCancelCause(out.Context())
	s.cancel = cancel
	*out = *out.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.n++
		},
		GotConn: func(httptrace.GotConnInfo) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.n >= mostSendings {
				cancel(errRefused)
			}
		},
	}))
}

// next lends the payload for one more sending.
func (s *sendings) next() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
	if s.n >= mostSendings {
		return nil, errRefused
	}
	if !s.ended {
		s.last = s.of.reader()
	}
	if s.last == nil {
		return nil, http.ErrBodyReadAfterClose
	}
	return s.last, nil
}

func (s *sendings) close() {
	if s.last != nil {
		_ = s.last.Close()
		s.last = nil
	}
}

// Close ends the last sending, and there are no others.
func (s *sendings) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.close()
	s.cancel(nil)
	return nil
}
