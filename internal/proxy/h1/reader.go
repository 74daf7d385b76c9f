package h1

import (
	"bytes"
	"io"
	"sync"
)

const (
	// readBuffer is the size of a connection's read buffer: enough for the head of any engine's answer, and small
	// since some connections wait with one.
	readBuffer = 4 << 10
	// maxEmptyReads bounds reads that return neither bytes nor an error.
	maxEmptyReads = 100
)

// readBuffers are the buffers that readers lend from and give back.
var readBuffers = sync.Pool{New: func() any { return new([readBuffer]byte) }}

// reader is a read buffer that can grow to hold a long head, and is bypassed by large reads of a body. Without bytes it
// has no memory where src can do with that.
type reader struct {
	src      io.Reader
	lent     lateReader // src, if it is one
	buf      []byte
	pos, end int
	received int64 // bytes read from src since the exchange began
	err      error // an error of src that has not been returned yet
}

func (r *reader) buffered() int { return r.end - r.pos }

// room is free memory for at least one more byte, after the buffered ones.
func (r *reader) room() []byte {
	r.shrink()
	switch {
	case r.buf == nil:
		r.buf = readBuffers.Get().(*[readBuffer]byte)[:]
		r.pos, r.end = 0, 0
	case r.pos == r.end:
		r.pos, r.end = 0, 0
	case r.end == len(r.buf) && r.pos > 0:
		r.end = copy(r.buf, r.buf[r.pos:r.end])
		r.pos = 0
	case r.end == len(r.buf):
		grown := make([]byte, 2*len(r.buf))
		r.end = copy(grown, r.buf)
		r.buf = grown
	}
	return r.buf[r.end:]
}

// take is room for the memory of a leanConn.
func (r *reader) take() []byte { return r.room() }

// give lets the buffer go, which is empty.
func (r *reader) give() {
	if len(r.buf) == readBuffer {
		readBuffers.Put((*[readBuffer]byte)(r.buf))
	}
	r.buf, r.pos, r.end = nil, 0, 0
}

// shrink lets an empty buffer go that a long head has grown: the answer may stream for hours.
func (r *reader) shrink() {
	if r.pos == r.end && len(r.buf) > readBuffer {
		r.give()
	}
}

// took notes that n bytes have been read into the room, and the read's error.
func (r *reader) took(n int, err error) {
	r.end += n
	r.received += int64(n)
	r.err = err
}

// fill reads once from src, making room first. It returns nil if at least one byte arrived.
func (r *reader) fill() error {
	if r.lent != nil && r.pos == r.end && r.err == nil {
		r.pos, r.end = 0, 0
		n, err := r.lent.readLent(r)
		r.received += int64(n)
		r.end += n
		return err
	}
	n, err := r.once(r.room())
	r.end += n
	if n > 0 {
		return nil // an error that came with bytes is returned next time
	}
	return err
}

// once reads from src until it returns bytes or an error.
func (r *reader) once(p []byte) (int, error) {
	if err := r.err; err != nil {
		r.err = nil
		return 0, err
	}
	for range maxEmptyReads {
		n, err := r.src.Read(p)
		r.received += int64(n)
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// read returns buffered bytes if there are any, else the bytes of one read from src. all means that p can hold
// everything that may be taken from the connection, so that reading ahead gains nothing.
func (r *reader) read(p []byte, all bool) (int, error) {
	if r.pos == r.end {
		r.shrink()
		if all || len(p) >= readBuffer {
			return r.once(p)
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.buf[r.pos:r.end])
	r.pos += n
	return n, nil
}

// block returns the bytes up to and including the next empty line, and consumes them. They are valid until the next
// read. With wait unset it returns nil when the empty line has not arrived yet.
func (r *reader) block(limit int, wait bool) ([]byte, error) {
	line, scanned := 0, 0
	for {
		data := r.buf[r.pos:r.end]
		for {
			i := bytes.IndexByte(data[scanned:], '\n')
			if i < 0 {
				scanned = len(data)
				break
			}
			scanned += i + 1
			text := data[line : scanned-1]
			line = scanned
			if scanned > limit {
				return nil, ErrHeaderTooLarge
			}
			if len(text) == 0 || len(text) == 1 && text[0] == '\r' {
				r.pos += scanned
				return data[:scanned], nil
			}
		}
		if len(data) >= limit {
			return nil, ErrHeaderTooLarge
		}
		if !wait {
			return nil, nil
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// line returns the bytes before the next line feed and consumes both. With wait unset it returns nil when the line
// feed has not arrived yet; an empty line is not nil.
func (r *reader) line(limit int, wait bool) ([]byte, error) {
	scanned := 0
	for {
		data := r.buf[r.pos:r.end]
		if i := bytes.IndexByte(data[scanned:], '\n'); i >= 0 && scanned+i <= limit {
			r.pos += scanned + i + 1
			return data[:scanned+i], nil
		} else if i >= 0 || len(data) > limit {
			return nil, malformed("line too long")
		}
		scanned = len(data)
		if !wait {
			return nil, nil
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// wait returns when there are buffered bytes, or an error that the next read returns.
func (r *reader) wait() {
	if r.pos == r.end && r.err == nil {
		r.err = r.fill()
	}
}
