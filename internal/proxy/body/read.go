package body

import (
	"errors"
	"io"
	"net/http"
	"os"
)

// Why a body was not taken.
var (
	ErrTooLarge = errors.New("the request body is larger than the router accepts (limits.body in its configuration)")
	ErrSlowBody = errors.New("the request body did not arrive in time")
	ErrBadBody  = errors.New("the request body could not be read to its end")
)

// What a client says about the length of a long body is believed as far as its bytes bear it out: the first buffer is small, and each
// further one a multiple of what has arrived. The multiples are such that little of a body of up to 512 kB is copied on the way.
const (
	smallBody  = 4 << 10 // up to this length a body has one buffer from the beginning
	firstBytes = 512
	someBytes  = 32 << 10 // from which on a client has shown that it sends
	growFirst  = 8
	growLater  = 16
)

// nextRoom is how large a buffer is to be for a body of which so many bytes have arrived. claim is its length as the client says,
// negative when it says nothing; most bounds what is read of such a one.
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
	claim  int64 // the length that the client says; negative when it says nothing
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
	if !r.budget.take(bufferSize(n)) {
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
		r.budget.give(n)
	}
}

// full reports whether the buffer is to grow before more is read. One that is nearly full is not read into where all can be read by one
// call: net/http reads past its own buffer only into a larger one.
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

// read reads to the end. On an error there is nothing to give back.
func (r *bodyReader) read() (buf *buffer, err error) {
	defer func() {
		if buf == nil { // a panic too
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

// Read reads a whole request body of at most limit bytes. The caller sees to it that the client does not take too long.
// net/http can only notice that a client left once its body has been read to the end.
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
