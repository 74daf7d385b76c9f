package body

import (
	"errors"
	"io"
	"net/http"
	"os"
)

// Reasons for rejecting a body.
var (
	ErrTooLarge = errors.New("the request body is larger than the router accepts (limits.body in its configuration, " +
		"or body in models.settings)")
	ErrSlowBody = errors.New("the request body did not arrive in time")
	ErrBadBody  = errors.New("the request body could not be read to its end")
)

// A client's statement of a long body's length is trusted only in proportion to the bytes that arrive: the first buffer
// is small, and each further one a multiple of what has arrived. The multiples are chosen so that little of a body of
// up to 512 kB is copied.
const (
	smallBody  = 4 << 10 // up to this length a body has one buffer from the start
	firstBytes = 512
	someBytes  = 32 << 10 // after this many bytes larger buffers are allocated
	growFirst  = 8
	growLater  = 16
)

// nextRoom is the size of the buffer for a body of which this many bytes have arrived. claim is the client's statement
// of the length, negative for none; most bounds what is read of a body without one.
func nextRoom(arrived, claim, most int64) int64 {
	known := claim >= 0
	if known {
		most = claim
	}
	switch {
	case known && claim <= smallBody:
		return claim
	case arrived == 0:
		return min(firstBytes, most)
	case arrived < smallBody, known && arrived < someBytes:
		return min(growFirst*arrived, most)
	case known:
		return min(growLater*arrived, most)
	default:
		return min(2*arrived, most)
	}
}

// bodyReader reads one body into a buffer that grows within a budget.
type bodyReader struct {
	from   io.Reader
	claim  int64 // the length stated by the client; negative for none
	limit  int64
	budget *Budget
	buf    *buffer // nil before the first
}

// grow makes room for more.
func (r *bodyReader) grow() error {
	old := r.buf
	arrived := 0
	if old != nil {
		arrived = len(old.bytes)
	}
	n := int(nextRoom(int64(arrived), r.claim, r.limit+1))
	if !r.budget.Take(bufferSize(n)) {
		return ErrNoRoom
	}
	r.buf = newBuffer(n)
	if old != nil {
		r.buf.bytes = append(r.buf.bytes, old.bytes...)
		r.drop(old)
	}
	return nil
}

func (r *bodyReader) drop(b *buffer) {
	if b != nil {
		n := cap(b.bytes)
		b.free()
		r.budget.Give(n)
	}
}

// full reports whether the buffer must grow before the next read. A nearly full buffer is not used if one call could
// read the rest: net/http reads past its own buffer only into a larger one.
func (r *bodyReader) full() bool {
	if r.buf == nil {
		return true
	}
	room := cap(r.buf.bytes)
	if r.claim >= 0 {
		return int64(room) < r.claim && len(r.buf.bytes) > room-room/4
	}
	return len(r.buf.bytes) == room
}

// read reads to the end. After an error no buffer needs to be freed.
func (r *bodyReader) read() (buf *buffer, err error) {
	defer func() {
		if buf == nil { // also after a panic
			r.drop(r.buf)
		}
	}()
	for {
		if r.full() {
			if err := r.grow(); err != nil {
				return nil, err
			}
		}
		b := r.buf.bytes
		end := cap(b)
		if r.claim >= 0 {
			end = int(min(int64(end), r.claim))
		}
		n, err := r.from.Read(b[len(b):end])
		b = b[:len(b)+n]
		r.buf.bytes = b
		switch {
		case int64(len(b)) > r.limit:
			return nil, ErrTooLarge
		case int64(len(b)) == r.claim || err == io.EOF && r.claim < 0:
			return r.buf, nil
		case err != nil:
			return nil, err
		}
	}
}

// Read reads a whole request body of at most limit bytes. The caller limits the time that the client may take. net/http
// notices that a client left only after its body has been read to the end.
func Read(r *http.Request, limit int64, in *Budget) (*Payload, error) {
	if r.ContentLength > limit {
		return nil, ErrTooLarge
	}
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return newPayload(nil, nil), nil
	}
	buf, err := (&bodyReader{from: r.Body, claim: r.ContentLength, limit: limit, budget: in}).read()
	switch {
	case err == nil:
		return newPayload(buf, in), nil
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrNoRoom):
		return nil, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, ErrSlowBody
	default:
		return nil, ErrBadBody
	}
}
