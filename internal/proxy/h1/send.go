package h1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// together is the size up to which head and body are copied into one buffer. Beyond it one system call gathers them
	// (writev), which costs more for small ones and saves the copy of large ones.
	together = 8 << 10
	// freshBuffer is the size of a request that a fresh socket buffer takes whole, so that writing it cannot block.
	freshBuffer = 16 << 10
	// stallWait is how long a body in memory may block the caller. A peer that does not read may have answered already,
	// and only a reader sees the answer; so a goroutine continues the write and the caller reads.
	stallWait = 100 * time.Millisecond
	// copyBuffer is the memory that streams a body.
	copyBuffer = 32 << 10
	// chunkRoom is the space for the size line before a chunk's data, chunkTail that for the line end after it.
	chunkRoom, chunkTail = 10, 2
)

// upload is a goroutine that writes a request body while the caller waits for the answer.
type upload struct {
	memory bool  // the body is the caller's memory
	body   *Body // to be closed at the end; valid when left has been set first
	// set by the first of two events: the caller leaves the body to the goroutine, or the goroutine ends
	left   atomic.Bool
	ending atomic.Bool // the last write has begun
	done   chan struct{}
	err    error // of the connection; valid after done
	srcErr error // of the caller's body; valid after done
}

var copyBuffers = sync.Pool{New: func() any { return new([chunkRoom + copyBuffer + chunkTail]byte) }}

// send writes the request, or starts a goroutine for it. The head has been let go when it returns, unless the
// connection was unusable.
func (x *exchange) send(out *outgoing) error {
	err := x.write(out)
	if err != errLoud { //nolint:errorlint // never wrapped
		out.written()
	}
	return err
}

func (x *exchange) write(out *outgoing) error {
	cn := x.conn
	if out.stream != nil {
		if _, err := cn.nc.Write(*out.head); err != nil {
			out.drop()
			return err
		}
		x.upload = &upload{done: make(chan struct{})}
		go x.upload.stream(cn, out.stream, out.length)
		return nil
	}
	whole := len(*out.head) + out.inMemory()
	if whole <= together {
		b := append(*out.head, out.memory...)
		for _, p := range out.more {
			b = append(b, p...)
		}
		*out.head = b[:len(*out.head)]
		if cn.reused && cn.checksSilence(out) {
			return cn.sendAndReceive(out, b, nil)
		}
		_, err := cn.nc.Write(b)
		return err
	}
	if cn.reused && cn.checksSilence(out) {
		return cn.sendAndReceive(out, *out.head, out.memory)
	}
	cn.vec = [2][]byte{*out.head, out.memory}
	cn.rest = cn.vec[:]
	if len(out.more) > 0 {
		cn.rest = append(append(make(net.Buffers, 0, len(out.more)+2), cn.vec[:]...), out.more...)
	}
	if whole <= freshBuffer {
		return cn.flush()
	}
	if err := cn.nc.SetWriteDeadline(time.Now().Add(stallWait)); err != nil {
		return err
	}
	err := cn.flush()
	if resetErr := cn.nc.SetWriteDeadline(time.Time{}); resetErr != nil && err == nil {
		err = resetErr
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	out.head = nil // the goroutine has it now
	u := &upload{memory: true, done: make(chan struct{})}
	x.upload, out.upload = u, u
	go func() {
		u.err = cn.flush()
		if u.left.Swap(true) {
			_ = u.body.Close()
		}
		close(u.done)
	}()
	return nil
}

// leave makes the goroutine close the body at its end. It returns false if the goroutine has ended.
func (u *upload) leave(b *Body) bool {
	u.body = b
	return !u.left.Swap(true)
}

// flush writes the rest of vec. After a time-out it can be called again.
func (cn *conn) flush() error {
	_, err := cn.gather()
	if err == nil {
		cn.vec, cn.rest = [2][]byte{}, nil // drop the references to the caller's memory
	}
	return err
}

// gather writes the rest of vec and removes the bytes written.
func (cn *conn) gather() (int64, error) {
	l := cn.lean
	if l == nil || len(cn.rest) != 2 {
		return cn.rest.WriteTo(cn.nc)
	}
	n, err := l.gather(cn.rest[0], cn.rest[1])
	first := min(n, len(cn.rest[0]))
	cn.rest[0], cn.rest[1] = cn.rest[0][first:], cn.rest[1][n-first:]
	return int64(n), err
}

// stream writes body to the connection and closes it. A body that fails closes the connection too: the engine must not
// take a part for the whole, and the caller, which waits for an answer, must wake up.
func (u *upload) stream(cn *conn, body io.ReadCloser, length int64) {
	buf := copyBuffers.Get().(*[chunkRoom + copyBuffer + chunkTail]byte)
	if length < 0 {
		u.writeChunks(cn.nc, body, buf)
	} else {
		u.writeSized(cn.nc, body, buf, length)
	}
	copyBuffers.Put(buf)
	failed := u.srcErr != nil
	close(u.done)
	if failed {
		cn.close()
	}
	_ = body.Close()
}

func (u *upload) writeSized(w net.Conn, body io.Reader, buf *[chunkRoom + copyBuffer + chunkTail]byte, length int64) {
	for left := length; left > 0; {
		n, err := body.Read(buf[:min(left, copyBuffer)])
		left -= int64(n)
		if left == 0 {
			u.ending.Store(true)
		}
		if n > 0 {
			if _, u.err = w.Write(buf[:n]); u.err != nil {
				return
			}
		}
		if err == nil || left == 0 {
			continue
		}
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: %d of %d bytes missing", io.ErrUnexpectedEOF, left, length)
		}
		u.srcErr = err
		return
	}
}

// writeChunks writes each Read as a chunk, with one Write: the size line is put right before the data.
func (u *upload) writeChunks(w net.Conn, body io.Reader, buf *[chunkRoom + copyBuffer + chunkTail]byte) {
	for {
		n, err := body.Read(buf[chunkRoom : chunkRoom+copyBuffer])
		if n > 0 {
			var line [chunkRoom]byte
			size := append(strconv.AppendInt(line[:0], int64(n), 16), "\r\n"...)
			start := chunkRoom - len(size)
			copy(buf[start:], size)
			end := chunkRoom + n + copy(buf[chunkRoom+n:], "\r\n")
			if _, u.err = w.Write(buf[start:end]); u.err != nil {
				return
			}
		}
		if errors.Is(err, io.EOF) {
			u.ending.Store(true)
			_, u.err = io.WriteString(w, "0\r\n\r\n")
			return
		}
		if err != nil {
			u.srcErr = err
			return
		}
	}
}
