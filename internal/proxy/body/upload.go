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

// Upload is a request body that is streamed to the engine. It remembers whether the client is to blame when the attempt
// fails, and pauses the attempt's time limit while the client sends.
type Upload struct {
	body    io.ReadCloser
	onRead  func() // called after each read
	control *http.ResponseController
	stream  bool        // over HTTP/2: a deadline is that of one request
	pending atomic.Bool // waiting for the client
	ended   atomic.Bool
	failure atomic.Pointer[error]
	made    time.Time
	until   atomic.Int64 // ns after made, when the read that waits ends at the latest; 0 before the first

	reading sync.Mutex // held during a read from the client
	pace    pace       // Guarded by reading

	mu   sync.Mutex
	over bool // the attempt has ended: do not wait for the client, nor use control. Guarded by mu
}

// UploadBounds are what the client of an upload may take.
type UploadBounds struct {
	Pause time.Duration // longest wait for the next bytes
	Whole time.Duration // from the first read to the end, whoever is waited for
	Bytes int64         // of the whole body
}

// leastRate is how many bytes a second an upload brings at least, after its first Pause and beside the waits for the
// engine. A client that sends a byte a minute would hold its place at the engine as long as it likes; the slowest links
// carry several times as much (Apache's mod_reqtimeout asks for 500 bytes a second).
const leastRate = 1 << 10

// pace is how a client keeps within bounds.
type pace struct {
	bounds  UploadBounds
	began   time.Time
	waited  time.Duration // for the client, by all reads
	arrived int64         // bytes
}

// until is when the read that begins now ends at the latest.
func (p *pace) until(now time.Time) time.Time {
	if p.began.IsZero() {
		p.began = now
	}
	wait := p.bounds.Pause + time.Duration(p.arrived)*time.Second/leastRate - p.waited
	last := now.Add(min(wait, p.bounds.Pause))
	if end := p.began.Add(p.bounds.Whole); end.Before(last) {
		return end
	}
	return last
}

// count counts what a read brought that began then.
func (p *pace) count(n int, began time.Time) {
	p.waited += time.Since(began)
	p.arrived += int64(n)
}

// Paced is a body that is read whole, within the bounds in time of an upload.
type Paced struct {
	io.ReadCloser
	pace  pace
	until time.Time // the end of the last read at the latest; zero before the first
	tell  func(until time.Time)
}

// NewPaced bounds the reads of body. Each tells until when it ends at the latest; who is told ends it.
func NewPaced(body io.ReadCloser, bounds UploadBounds, tell func(until time.Time)) *Paced {
	return &Paced{ReadCloser: body, pace: pace{bounds: bounds}, tell: tell}
}

// Late reports whether the last read took longer than it may.
func (p *Paced) Late() bool { return !p.until.IsZero() && !time.Now().Before(p.until) }

// Read waits for the client.
func (p *Paced) Read(b []byte) (int, error) {
	began := time.Now()
	p.until = p.pace.until(began)
	p.tell(p.until)
	n, err := p.ReadCloser.Read(b)
	p.pace.count(n, began)
	return n, err
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

// NewUpload streams the body of a request that w answers, within bounds. Each read calls onRead when it returns.
func NewUpload(w http.ResponseWriter, body io.ReadCloser, bounds UploadBounds, onRead func()) *Upload {
	u := &Upload{
		body: body, made: time.Now(), pace: pace{bounds: bounds}, onRead: onRead,
		control: http.NewResponseController(w),
	}
	// Otherwise net/http holds the answer back until the whole body has been read. HTTP/2 does not need this and
	// returns an error.
	u.stream = u.control.EnableFullDuplex() != nil
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
		} else if errors.Is(err, ErrTooLarge) {
			why = ErrTooLarge
		}
		u.failure.CompareAndSwap(nil, &why)
	}
	u.pending.Store(false) // now that failure is set: Blame is asked at any time
	u.onRead()
	return n, err
}

func (u *Upload) read(p []byte) (int, error) {
	u.reading.Lock()
	defer u.reading.Unlock()
	began := time.Now()
	until := u.pace.until(began)
	u.until.Store(int64(until.Sub(u.made)))
	if !u.setLimit(until) {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := u.body.Read(p)
	if u.pace.count(n, began); u.pace.arrived > u.pace.bounds.Bytes {
		return 0, ErrTooLarge
	}
	return n, err
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

// Late reports whether the client did not send in time. net/http ends the request's context before the read that was
// too late returns, so the time counts until then.
func (u *Upload) Late() bool {
	if u == nil {
		return false
	}
	if why := u.failure.Load(); why != nil {
		return errors.Is(*why, ErrSlowBody)
	}
	until := u.until.Load()
	return until > 0 && u.pending.Load() && int64(time.Since(u.made)) >= until
}

// Finish ends all reads from the client: the attempt is over. It returns after the last one. If net/http finds a read
// in progress when the handler returns, it lifts the deadline and waits for the rest of the body without limit.
func (u *Upload) Finish() {
	if u == nil {
		return
	}
	u.mu.Lock()
	unread := u.Unread()
	if unread && u.control.SetReadDeadline(time.Unix(1, 0)) != nil {
		unread = false // a read in progress cannot be woken
	}
	if u.stream { // else net/http keeps a stream that its client reset until the deadline of the last read
		_ = u.control.SetReadDeadline(time.Time{})
	}
	u.over = true
	u.mu.Unlock()
	if unread {
		u.reading.Lock()
		defer u.reading.Unlock()
	}
}
