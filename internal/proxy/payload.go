package proxy

import (
	"bytes"
	"errors"
	"io"
	"math/bits"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// payload is a request body in memory. Its buffer goes back to the pool when the call and every attempt that reads it
// have let go: net/http's transport may still be reading after its attempt has failed (package h1's is not).
type payload struct {
	bytes  []byte
	pieces [][]byte // instead of bytes: parts of another payload and what is changed between them
	refs   atomic.Int32
}

// longBody is the length from which a body that is changed in places is sent in pieces instead of being copied.
const longBody = 64 << 10

func (p *payload) len() int {
	n := len(p.bytes)
	for _, piece := range p.pieces {
		n += len(piece)
	}
	return n
}

// Buffers are pooled by powers of two between these sizes; larger ones are left to the garbage collector.
const (
	smallestBuffer = 12 // 4 kB
	largestBuffer  = 20 // 1 MB
)

var buffers [largestBuffer - smallestBuffer + 1]sync.Pool

func bufferClass(n int) int { return max(bits.Len(uint(max(n-1, 0))), smallestBuffer) - smallestBuffer }

// newBuffer returns an empty buffer with room for n bytes.
func newBuffer(n int) []byte {
	class := bufferClass(n)
	if class >= len(buffers) {
		return make([]byte, 0, n)
	}
	if b, ok := buffers[class].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<(class+smallestBuffer))
}

func freeBuffer(b []byte) {
	class := bufferClass(cap(b))
	if class >= len(buffers) || cap(b) != 1<<(class+smallestBuffer) {
		return
	}
	buffers[class].Put(&b)
}

func newPayload(b []byte) *payload {
	p := &payload{bytes: b}
	p.refs.Store(1)
	return p
}

func (p *payload) release() {
	if p != nil && p.refs.Add(-1) == 0 {
		freeBuffer(p.bytes)
		p.bytes, p.pieces = nil, nil
	}
}

// reader hands the payload to one attempt.
func (p *payload) reader() *payloadReader {
	p.refs.Add(1)
	r := &payloadReader{payload: p}
	r.Reset(p.bytes)
	return r
}

type payloadReader struct {
	bytes.Reader
	payload *payload
	closed  atomic.Bool
}

// Close lets go of the payload, once.
func (r *payloadReader) Close() error {
	if r.closed.CompareAndSwap(false, true) {
		r.payload.release()
	}
	return nil
}

var (
	errTooLarge = errors.New("the request body is larger than the router accepts (limits.body in its configuration)")
	errSlowBody = errors.New("the request body did not arrive in time")
	errBadBody  = errors.New("the request body could not be read to its end")
)

// readBody reads a whole request body of at most limit bytes; call.check sees to it that the client does not take too long.
// net/http can only notice that a client left once its body has been read to the end.
func readBody(r *http.Request, limit int64) (*payload, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge
	}
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return newPayload(nil), nil
	}
	var b []byte
	var err error
	if r.ContentLength > 0 {
		b = newBuffer(int(r.ContentLength))[:r.ContentLength]
		_, err = io.ReadFull(r.Body, b)
	} else {
		b, err = readUnknown(r.Body, limit)
	}
	if err == nil {
		return newPayload(b), nil
	}
	freeBuffer(b)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlowBody
	default:
		return nil, errBadBody
	}
}

// passOver limits how long a client may take to send a body that nobody reads: net/http waits for it before it sends the answer, and
// without a limit for ever.
func (p *Proxy) passOver(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(p.cfg.ReadBody))
	}
}

// readUnknown reads a body of unknown length into one buffer.
func readUnknown(r io.Reader, limit int64) ([]byte, error) {
	b := newBuffer(1 << smallestBuffer)
	for {
		if len(b) == cap(b) {
			grown := append(newBuffer(2*cap(b)), b...)
			freeBuffer(b)
			b = grown
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return b, errTooLarge
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
	}
}
