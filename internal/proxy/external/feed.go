package external

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// feedBytes is how much of an answer waits to be read; the proxy's stream is not read meanwhile.
const feedBytes = 256 << 10

// Feed is the body of an answer: one goroutine writes it as pieces come, another reads it.
type Feed struct {
	mu      sync.Mutex
	change  sync.Cond
	buf     []byte
	err     error // what reading ends with
	closed  bool  // the reader has ended
	waiting bool  // the reader has read all and waits for more
}

// NewFeed is an empty one.
func NewFeed() *Feed {
	f := new(Feed)
	f.change.L = &f.mu
	return f
}

// Answer is the header of an answer to r whose body it is. When the context of r ends, so does the body.
func (f *Feed) Answer(r *http.Request, status int, h http.Header) *http.Response {
	stop := context.AfterFunc(r.Context(), func() { f.End(context.Cause(r.Context())) })
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: &watched{f, stop}, ContentLength: -1, Request: r,
	}
}

// watched is a feed whose reader no longer needs its context watched when it closes it.
type watched struct {
	*Feed
	stop func() bool
}

// Close ends reading.
func (w *watched) Close() error {
	w.stop()
	return w.Feed.Close()
}

// Read waits for a piece.
func (f *Feed) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.buf) == 0 && f.err == nil && !f.closed {
		f.waiting = true
		f.change.Broadcast()
		f.change.Wait()
	}
	f.waiting = false
	if f.closed {
		return 0, io.ErrClosedPipe
	}
	n := copy(p, f.buf)
	if f.buf = f.buf[n:]; len(f.buf) == 0 {
		f.buf = nil
	}
	f.change.Broadcast()
	if n == 0 && len(p) > 0 {
		return 0, f.err
	}
	return n, nil
}

// Close notes that the reader has ended.
func (f *Feed) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.buf = true, nil
	f.change.Broadcast()
	return nil
}

// Write adds a piece, when there is room for it.
func (f *Feed) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.buf) >= feedBytes && f.err == nil && !f.closed {
		f.change.Wait()
	}
	if f.closed || f.err != nil || len(b) == 0 {
		return len(b), nil
	}
	f.buf = append(f.buf, b...)
	f.waiting = false
	f.change.Broadcast()
	return len(b), nil
}

// End has reading end with err, when what came before has been read. The first end counts.
func (f *Feed) End(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		f.change.Broadcast()
	}
}

// Ended reports whether all has been written that will be.
func (f *Feed) Ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil
}

// Taken waits until all that was written has been worked off: the reader asks for more, or has gone.
func (f *Feed) Taken() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.waiting && !f.closed {
		f.change.Wait()
	}
}
