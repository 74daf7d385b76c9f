package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// CancelNotifier is a context that calls one function at its end, cheaper than context.AfterFunc.
type CancelNotifier interface {
	// SetOnDone calls f when the context ends, or at once if it has. There is one f at a time.
	SetOnDone(f func())
	// ClearOnDone removes f. It returns false when f has been called or is about to be.
	ClearOnDone() bool
}

// exchange is one request and its answer on one connection, and the body of that answer. It is not reused: a caller may
// keep and close a body long after the connection has begun to serve others.
type exchange struct {
	conn     *conn
	ctx      context.Context // bounds this exchange only, like that of an http.Request
	notifier CancelNotifier  // ctx, if it is one: the connection is closed at its end
	stop     func() bool     // detaches the connection from another ctx; nil if that cannot end
	upload   *upload         // the goroutine that writes the request, if any
	reusable bool            // both sides keep the connection
	settled  atomic.Bool

	// The body, touched by its reader only.
	resp     *http.Response
	kind     framing
	left     int64 // bytes to come: of a sized body, or of the current chunk
	chunked  chunkState
	trailLim int
	err      error // returned by further Reads
}

// run sends the request and reads the head of its answer.
func (x *exchange) run(req *http.Request, out *outgoing, limit int) (*http.Response, error) {
	sendErr := x.send(out)
	if sendErr == errLoud { //nolint:errorlint // never wrapped
		return nil, errLoud
	}
	h, err := x.readHead(out.upgrade, limit)
	if err != nil {
		if src := x.sourceErr(); src != nil {
			return nil, fmt.Errorf("h1: read request body: %w", src)
		}
		if sendErr != nil {
			return nil, fmt.Errorf("h1: send request: %w", sendErr)
		}
		return nil, err
	}
	resp, err := x.respond(req, &h)
	if err != nil {
		return nil, err
	}
	x.resp = resp
	x.reusable = sendErr == nil && !resp.Close && !out.close && x.kind != toEnd && !h.suspect
	switch {
	case h.status == http.StatusSwitchingProtocols:
		resp.Body = &tunnel{x: x}
	case x.kind == none || x.kind == sized && x.left == 0:
		x.settle(true)
		resp.Body = http.NoBody
	default:
		resp.Body = x
	}
	return resp, nil
}

// readHead reads the head of the final answer and skips informational ones (RFC 9110 §15.2), which share the bound on
// its size.
func (x *exchange) readHead(upgrade bool, limit int) (head, error) {
	for {
		block, err := x.conn.in.block(limit, true)
		if err != nil {
			if errors.Is(err, io.EOF) && x.conn.in.buffered() > 0 {
				err = io.ErrUnexpectedEOF
			}
			return head{}, fmt.Errorf("h1: read response: %w", err)
		}
		h, err := parseHead(block)
		if err != nil {
			return head{}, err
		}
		if h.status == http.StatusSwitchingProtocols && !upgrade {
			return head{}, malformed("101 that was not asked for")
		}
		if h.status >= 200 || h.status == http.StatusSwitchingProtocols {
			return h, nil
		}
		limit -= len(block)
	}
}

// settle ends the exchange, once: the connection goes back to the pool if no bytes of this exchange can follow on it,
// and is closed otherwise. Afterwards no goroutine refers to a request body in memory.
func (x *exchange) settle(clean bool) {
	if !x.settled.CompareAndSwap(false, true) {
		return
	}
	if x.detach() && clean && x.reusable && x.conn.in.buffered() == 0 && x.uploaded() {
		x.conn.release()
		return
	}
	x.conn.close()
	if x.upload != nil && x.upload.memory {
		<-x.upload.done // at once, since its writes fail now
	}
}

// attach closes the connection when the context ends.
func (x *exchange) attach() {
	if t, ok := x.ctx.(CancelNotifier); ok {
		x.notifier = t
		t.SetOnDone(x.conn.abort)
	} else if x.ctx.Done() != nil {
		x.stop = context.AfterFunc(x.ctx, x.conn.abort)
	}
}

// detach undoes attach. It returns false when the context's end is closing the connection right now.
func (x *exchange) detach() bool {
	switch {
	case x.notifier != nil:
		return x.notifier.ClearOnDone()
	case x.stop != nil:
		return x.stop()
	}
	return true
}

// lastWriteWait bounds the wait for the last write of a request that has been answered already.
const lastWriteWait = 50 * time.Millisecond

// uploaded reports whether the whole request has been written. An answer that comes before that leaves a connection
// whose next bytes belong to the old request.
func (x *exchange) uploaded() bool {
	u := x.upload
	if u == nil {
		return true
	}
	if u.ending.Load() {
		// The answer follows from the last bytes, whose write is about to return.
		timer := time.NewTimer(lastWriteWait)
		defer timer.Stop()
		select {
		case <-u.done:
		case <-timer.C:
		}
	}
	select {
	case <-u.done:
		return u.err == nil && u.srcErr == nil
	default:
		return false
	}
}

// sourceErr is the failure of the caller's request body, if that ended the exchange.
func (x *exchange) sourceErr() error {
	if x.upload == nil {
		return nil
	}
	select {
	case <-x.upload.done:
		return x.upload.srcErr
	default:
		return nil
	}
}
