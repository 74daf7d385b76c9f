package h1

import (
	"io"
	"net/http"
)

// Body is a request body in memory. It is an ordinary io.ReadCloser, so that any RoundTripper can send it; a Client
// recognises it, writes it without a copy and can send it twice.
type Body struct {
	data []byte
	pos  int
	once bool
}

// NewBody returns a Body that reads data. The caller must not change data until the request is over.
func NewBody(data []byte) *Body { return &Body{data: data} }

// Once marks a body that must not be sent a second time, not even when a kept connection proves dead: the engine may
// have taken the request, and its effect is wanted once.
func (b *Body) Once() *Body {
	b.once = true
	return b
}

// Len returns the number of bytes not read yet.
func (b *Body) Len() int { return len(b.data) - b.pos }

// Read copies the next bytes into p.
func (b *Body) Read(p []byte) (int, error) {
	if b.pos >= len(b.data) {
		return 0, io.EOF
	}
	n := copy(p, b.data[b.pos:])
	b.pos += n
	return n, nil
}

// WriteTo writes what is left with one Write.
func (b *Body) WriteTo(w io.Writer) (int64, error) {
	if b.pos >= len(b.data) {
		return 0, nil
	}
	n, err := w.Write(b.data[b.pos:])
	b.pos += n
	return int64(n), err
}

// Close does nothing: the memory is the caller's.
func (b *Body) Close() error { return nil }

// closeBody closes the body of a request that is not going to be sent, as RoundTripper demands.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

var (
	_ io.ReadCloser = (*Body)(nil)
	_ io.WriterTo   = (*Body)(nil)
)
