package body

import (
	"io"
	"math/bits"
	"net/http"
	"sync"
	"sync/atomic"
)

// Payload is a request body in memory. The call, each attempt and each transport that reads it hold a reference.
// Releasing the last one returns the memory to the pool and the budget.
type Payload struct {
	Bytes  []byte
	pieces [][]byte // instead of bytes: parts of whole and the edits between them
	whole  *Payload // nil unless there are pieces

	buf    *buffer // memory of bytes; nil for none
	budget *Budget // that counts buf
	refs   atomic.Int32
}

func (p *Payload) len() int {
	n := len(p.Bytes)
	for _, piece := range p.pieces {
		n += len(piece)
	}
	return n
}

// buffer is memory for a body. Buffers are pooled by powers of two between these sizes; larger ones are left to the
// garbage collector.
type buffer struct{ bytes []byte }

const (
	smallestBuffer = 9  // 512 B
	largestBuffer  = 20 // 1 MB
)

var buffers [largestBuffer - smallestBuffer + 1]sync.Pool

func bufferClass(n int) int { return max(bits.Len(uint(max(n-1, 0))), smallestBuffer) - smallestBuffer }

// bufferSize is the size of the buffer that newBuffer returns for n bytes.
func bufferSize(n int) int {
	if class := bufferClass(n); class < len(buffers) {
		return 1 << (class + smallestBuffer)
	}
	return n
}

// newBuffer returns an empty buffer with room for n bytes.
func newBuffer(n int) *buffer {
	if class := bufferClass(n); class < len(buffers) {
		if b, ok := buffers[class].Get().(*buffer); ok {
			return b
		}
	}
	return &buffer{make([]byte, 0, bufferSize(n))}
}

// free gives the memory back to the pool.
func (b *buffer) free() {
	class := bufferClass(cap(b.bytes))
	if class >= len(buffers) || cap(b.bytes) != 1<<(class+smallestBuffer) {
		return
	}
	b.bytes = b.bytes[:0]
	buffers[class].Put(b)
}

// newPayload returns a payload with one reference. Its buffer is counted in the budget; both may be nil.
func newPayload(buf *buffer, in *Budget) *Payload {
	p := &Payload{buf: buf, budget: in}
	if buf != nil {
		p.Bytes = buf.bytes
	}
	p.refs.Store(1)
	return p
}

// inPieces returns a payload with one reference, made of pieces that refer to p.
func (p *Payload) inPieces(pieces [][]byte) *Payload {
	p.refs.Add(1)
	out := newPayload(nil, nil)
	out.pieces, out.whole = pieces, p
	return out
}

// Release drops one reference; a nil payload has none.
func (p *Payload) Release() {
	if p == nil || p.refs.Add(-1) != 0 {
		return
	}
	p.Bytes, p.pieces = nil, nil
	if p.buf != nil {
		n := cap(p.buf.bytes)
		p.buf.free()
		p.buf = nil
		p.budget.Give(n)
	}
	p.whole.Release()
	p.whole = nil
}

// Returned implements h1.Owner: the transport has dropped its reference.
func (p *Payload) Returned() { p.Release() }

// reader lends the payload to net/http's transport, which may still read it after its attempt has failed. It is nil if
// the payload has been released.
func (p *Payload) reader() *payloadReader {
	for {
		refs := p.refs.Load()
		if refs == 0 {
			return nil
		}
		if p.refs.CompareAndSwap(refs, refs+1) {
			break
		}
	}
	r := &payloadReader{lender: p, rest: p.Bytes}
	if p.pieces != nil {
		r.rest, r.more = p.pieces[0], p.pieces[1:]
	}
	return r
}

// payloadReader reads a payload, and refers to it until its end or until it is closed: over HTTP/2 a body is closed
// when the answer ends, and an answer refers to the body of its request. It may be closed during a read.
type payloadReader struct {
	mu     sync.Mutex
	lender *Payload // nil after release
	closed bool
	rest   []byte
	more   [][]byte // what follows rest
}

// Read copies the next bytes.
func (r *payloadReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	r.next()
	if r.lender == nil {
		return 0, io.EOF
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	r.next()
	return n, nil
}

// next moves to the next non-empty piece, and releases the payload at the end.
func (r *payloadReader) next() {
	for len(r.rest) == 0 && len(r.more) > 0 {
		r.rest, r.more = r.more[0], r.more[1:]
	}
	if len(r.rest) == 0 {
		r.lender.Release()
		r.lender, r.rest, r.more = nil, nil, nil
	}
}

// Close releases the payload, unless it has been released.
func (r *payloadReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.rest, r.more = true, nil, nil
	r.next()
	return nil
}
