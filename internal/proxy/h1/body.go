package h1

import (
	"io"
	"net/http"
)

// Body is a request body in memory. It is an ordinary io.ReadCloser, so that any RoundTripper can send it; a Client
// recognises it, writes it without a copy and can send it twice.
type Body struct {
	data  []byte
	more  [][]byte // what follows data
	pos   int      // in data
	once  bool
	owner Owner // nil without an owner, or after it was told
}

// Owner is notified once when a Body no longer refers to its memory.
type Owner interface{ Returned() }

// NewBody returns a Body that reads data. The caller must not change data until the request is over.
func NewBody(data []byte) *Body { return &Body{data: data} }

// NewPieces returns a Body that reads pieces one after another, so that a large body with small changes needs no copy.
// The caller must not change them until the request is over.
func NewPieces(pieces [][]byte) *Body {
	if len(pieces) == 0 {
		return NewBody(nil)
	}
	return &Body{data: pieces[0], more: pieces[1:]}
}

// Once marks a body that must not be sent a second time, not even when a kept connection proves dead: the engine may
// have taken the request, and its effect is wanted once.
func (b *Body) Once() *Body {
	b.once = true
	return b
}

// Of sets the owner of the memory.
func (b *Body) Of(o Owner) *Body {
	b.owner = o
	return b
}

// next moves to the next non-empty piece; false at the end.
func (b *Body) next() bool {
	for b.pos >= len(b.data) {
		if len(b.more) == 0 {
			return false
		}
		b.data, b.more, b.pos = b.more[0], b.more[1:], 0
	}
	return true
}

// Read copies the next bytes into p.
func (b *Body) Read(p []byte) (int, error) {
	if !b.next() {
		return 0, io.EOF
	}
	n := copy(p, b.data[b.pos:])
	b.pos += n
	return n, nil
}

// WriteTo writes the rest with one Write for each piece.
func (b *Body) WriteTo(w io.Writer) (written int64, err error) {
	for err == nil && b.next() {
		var n int
		n, err = w.Write(b.data[b.pos:])
		b.pos += n
		written += int64(n)
	}
	return written, err
}

// Close releases the memory and notifies its owner. It must not run concurrently with another method.
func (b *Body) Close() error {
	o := b.owner
	b.data, b.more, b.pos, b.owner = nil, nil, 0, nil
	if o != nil {
		o.Returned()
	}
	return nil
}

// closeBody closes the body of a request that will not be sent, as RoundTripper requires.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

var (
	_ io.ReadCloser = (*Body)(nil)
	_ io.WriterTo   = (*Body)(nil)
)
