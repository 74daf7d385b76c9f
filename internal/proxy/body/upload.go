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

// Upload is a request body that is passed on as it streams in. It remembers whether the client is to blame when the attempt
// fails, and keeps the attempt's time limit from running while the client sends.
type Upload struct {
	body    io.ReadCloser
	limited time.Duration // longest time that each read waits for the client
	heard   func()        // called after each read
	control *http.ResponseController
	pending atomic.Bool // waiting for the client
	ended   atomic.Bool
	failure atomic.Pointer[error]

	reading sync.Mutex // held while the client is read from

	mu   sync.Mutex
	over bool // the attempt is at its end: nobody is to be waited for, and control must not be used any more. Guarded by mu
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

// Unread reports whether the client may still send: such a connection cannot be used for another request.
func (u *Upload) Unread() bool { return u != nil && !u.ended.Load() }

// NewUpload passes on the body of a request that w answers. Each read waits for at most limit, and calls heard at its end.
func NewUpload(w http.ResponseWriter, body io.ReadCloser, limit time.Duration, heard func()) *Upload {
	u := &Upload{body: body, limited: limit, heard: heard, control: http.NewResponseController(w)}
	// Without it net/http holds an answer back until the whole body has been read. HTTP/2 needs no such thing and says so.
	_ = u.control.EnableFullDuplex()
	return u
}

// Read waits for the client.
func (u *Upload) Read(p []byte) (int, error) {
	u.pending.Store(true)
	n, err := u.read(p)
	u.pending.Store(false)
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

// Close leaves the body to net/http, which reads or cuts what is left of it.
func (u *Upload) Close() error { return nil }

// Blame is what the client did wrong, nil when it did nothing.
func (u *Upload) Blame() error {
	if u == nil {
		return nil
	}
	if why := u.failure.Load(); why != nil {
		return *why
	}
	if u.pending.Load() {
		return ErrSlowBody
	}
	return nil
}

// Late reports whether the client was waited for in vain.
func (u *Upload) Late() bool {
	if u == nil {
		return false
	}
	why := u.failure.Load()
	return why != nil && errors.Is(*why, ErrSlowBody)
}

// Finish frees whoever still waits for the client: the attempt is over. It returns when nobody reads any more: a read that net/http finds
// in flight when the handler is at its end makes it lift the deadline, and then it waits for the rest of the body for ever.
func (u *Upload) Finish() {
	if u == nil {
		return
	}
	u.mu.Lock()
	unread := u.Unread()
	if unread && u.control.SetReadDeadline(time.Unix(1, 0)) != nil {
		unread = false // who reads cannot be woken
	}
	u.over = true
	u.mu.Unlock()
	if unread {
		u.reading.Lock()
		defer u.reading.Unlock()
	}
}
