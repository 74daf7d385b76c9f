package body

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Upload is a request body that is streamed to the engine. It remembers whether the client is to blame when the attempt fails,
// and pauses the attempt's time limit while the client sends.
type Upload struct {
	body    io.ReadCloser
	limited time.Duration // longest wait of a read for the client
	heard   func()        // called after each read
	control *http.ResponseController
	pending atomic.Bool // waiting for the client
	ended   atomic.Bool
	failure atomic.Pointer[error]

	reading sync.Mutex // held during a read from the client

	mu   sync.Mutex
	over bool // the attempt has ended: do not wait for the client, nor use control. Guarded by mu
}

// setLimit sets the deadline on reading from the client. ok is false when the attempt is over.
func (u *Upload) setLimit(t time.Time) (ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.over {
		_ = u.control.SetReadDeadline(t)
	}
	return !u.over
}

// Unread reports whether the client may still be sending: its connection cannot be used for another request.
func (u *Upload) Unread() bool { return u != nil && !u.ended.Load() }

// NewUpload streams the body of a request that w answers. Each read waits for at most limit, and calls heard when it returns.
func NewUpload(w http.ResponseWriter, body io.ReadCloser, limit time.Duration, heard func()) *Upload {
	u := &Upload{body: body, limited: limit, heard: heard, control: http.NewResponseController(w)}
	// Otherwise net/http holds the answer back until the whole body has been read. HTTP/2 does not need this and returns an
	// error.
	_ = u.control.EnableFullDuplex()
	return u
}

// Read waits for the client.
func (u *Upload) Read(p []byte) (int, error) {
	u.pending.Store(true)
	n, err := u.read(p)
	switch {
	case errors.Is(err, io.EOF):
		u.ended.Store(true)
		u.setLimit(time.Time{})
	case err != nil:
		why := ErrBadBody
		if errors.Is(err, os.ErrDeadlineExceeded) {
			why = ErrSlowBody
		}
		u.failure.CompareAndSwap(nil, &why)
	}
	u.pending.Store(false) // now that failure is set: Blame is asked at any time
	u.heard()
	return n, err
}

func (u *Upload) read(p []byte) (int, error) {
	u.reading.Lock()
	defer u.reading.Unlock()
	if !u.setLimit(time.Now().Add(u.limited)) {
		return 0, http.ErrBodyReadAfterClose
	}
	return u.body.Read(p)
}

// Close leaves the body to net/http, which reads or drops the rest.
func (u *Upload) Close() error { return nil }

// Blame is the client's fault; nil for none.
func (u *Upload) Blame() error {
	if u == nil {
		return nil
	}
	if why := u.failure.Load(); why != nil {
		return *why
	}
	if u.pending.Load() && u.Unread() {
		return ErrSlowBody
	}
	return nil
}

// Late reports whether the client did not send in time.
func (u *Upload) Late() bool {
	if u == nil {
		return false
	}
	why := u.failure.Load()
	return why != nil && errors.Is(*why, ErrSlowBody)
}

// Finish ends all reads from the client: the attempt is over. It returns after the last one. If net/http finds a read in
// progress when the handler returns, it lifts the deadline and waits for the rest of the body without limit.
func (u *Upload) Finish() {
	if u == nil {
		return
	}
	u.mu.Lock()
	unread := u.Unread()
	if unread && u.control.SetReadDeadline(time.Unix(1, 0)) != nil {
		unread = false // a read in progress cannot be woken
	}
	u.over = true
	u.mu.Unlock()
	if unread {
		u.reading.Lock()
		defer u.reading.Unlock()
	}
}
