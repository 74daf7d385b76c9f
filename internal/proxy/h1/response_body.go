package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Read returns bytes of the answer's body as soon as there are any. At the end of the body the connection goes back to
// the pool before io.EOF is returned, possibly together with the last bytes. A truncated body fails with
// io.ErrUnexpectedEOF, one whose context has ended with the context's cause.
func (x *exchange) Read(p []byte) (int, error) {
	if x.err != nil {
		return 0, x.err
	}
	if x.settled.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := x.next(p)
	if err == nil {
		return n, nil
	}
	x.err = x.explain(err)
	x.settle(x.err == io.EOF)
	return n, x.err
}

// Wait returns when Read would return something: bytes that have arrived, or an error. Unlike Read it needs no memory
// of the caller's while it waits.
func (x *exchange) Wait() {
	if x.err == nil && !x.settled.Load() {
		x.conn.in.wait()
	}
}

// explain finds the cause of an error of the connection.
func (x *exchange) explain(err error) error {
	switch {
	case err == io.EOF:
		return err
	case x.ctx.Err() != nil:
		return context.Cause(x.ctx)
	case x.settled.Load():
		return http.ErrBodyReadAfterClose
	case errors.Is(err, ErrMalformed):
		return err
	}
	return fmt.Errorf("h1: read response body: %w", err)
}

// next reads body bytes; io.EOF means that the body is complete.
func (x *exchange) next(p []byte) (n int, err error) {
	switch x.kind {
	case sized:
		all := int64(len(p)) >= x.left
		if all {
			p = p[:x.left]
		}
		n, err = x.conn.in.read(p, all)
		x.left -= int64(n)
		switch {
		case x.left == 0:
			return n, io.EOF
		case err == io.EOF:
			return n, io.ErrUnexpectedEOF
		}
		return n, err
	case inChunks:
		return x.nextChunks(p)
	default:
		return x.conn.in.read(p, false)
	}
}

// Close ends the exchange. If the body has not been read to its end the connection is closed too, which is how an
// HTTP/1.1 engine learns that its client is gone. It may be called while another goroutine is in Read.
func (x *exchange) Close() error {
	x.settle(false)
	return nil
}

// tunnel is the body of a 101 answer: the connection itself, from the byte after the head on.
type tunnel struct{ x *exchange }

// Read returns bytes from the engine.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.x.conn.in.read(p, false)
	if err != nil {
		err = t.x.explain(err)
	}
	return n, err
}

// Write sends bytes to the engine.
func (t *tunnel) Write(p []byte) (int, error) { return t.x.conn.nc.Write(p) }

// CloseWrite tells the engine that no more bytes will come, if the connection supports it.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.x.conn.nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close closes the connection.
func (t *tunnel) Close() error {
	t.x.settle(false)
	return nil
}

var (
	_ io.ReadCloser      = (*exchange)(nil)
	_ io.ReadWriteCloser = (*tunnel)(nil)
)
