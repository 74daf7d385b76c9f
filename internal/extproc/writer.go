package extproc

import (
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// writer is what the door writes its answer with. Before the endpoint's answer has come, what it writes is the proxy's
// own answer to its client; afterwards it is what the endpoint's is changed into. Only the door's goroutine uses it,
// but for take.
type writer struct {
	x      *exchange
	header http.Header
	status int
	buf    []byte // not sent yet
	begun  bool   // the answer's header has gone to the proxy

	mu     sync.Mutex
	timers [2]*time.Timer // of the deadlines to read and to write
	over   bool           // the door has returned: deadlines mean nothing any more
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// relays reports whether what is written is the endpoint's answer.
func (w *writer) relays() bool { return w.x.got != nil && w.x.got.status == w.status }

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if err := w.x.ctx.Err(); err != nil {
		return 0, err
	}
	w.buf = append(w.buf, p...)
	if w.x.duplex() && w.relays() && len(w.buf) >= chunkBytes {
		return len(p), w.send(false)
	}
	return len(p), nil
}

// FlushError sends what was written, where the proxy takes it as it comes.
func (w *writer) FlushError() error {
	if w.x.duplex() && w.relays() && len(w.buf) > 0 {
		return w.send(false)
	}
	return nil
}

// send sends what was written. With last it is all.
func (w *writer) send(last bool) error {
	x := w.x
	if !w.begun {
		w.begun = true
		m := difference(x.got.header, w.header)
		if from, to := x.got.header["Content-Length"], w.header["Content-Length"]; len(from) > 0 && len(to) == 0 {
			m.RemoveHeaders = append(m.RemoveHeaders, "content-length")
		} else if len(to) > 0 && !slices.Equal(from, to) {
			set(m, "content-length", to...)
		}
		if err := x.reply(headersReply(true, m)); err != nil {
			return err
		}
	}
	if x.got.bodiless {
		return nil
	}
	ends := last && !x.trailers[1].Load()
	for {
		n := min(len(w.buf), chunkBytes)
		if n == 0 && !ends {
			break
		}
		part := slices.Clone(w.buf[:n])
		w.buf = append(w.buf[:0], w.buf[n:]...)
		done := len(w.buf) == 0
		if err := x.reply(bodyReply(true, piece(part, ends && done))); err != nil {
			return err
		}
		if done {
			break
		}
	}
	if last && !ends {
		return x.reply(trailersReply(true))
	}
	return nil
}

// take is what was written since the last time. The door must be waiting, or have returned.
func (w *writer) take() []byte {
	b := w.buf
	w.buf = nil
	return b
}

// SetReadDeadline bounds the wait for the request's body.
func (w *writer) SetReadDeadline(t time.Time) error {
	w.deadline(0, t, func() { _ = w.x.reading.CloseWithError(os.ErrDeadlineExceeded) })
	return nil
}

// SetWriteDeadline bounds the wait for the proxy to take the answer.
func (w *writer) SetWriteDeadline(t time.Time) error {
	w.deadline(1, t, w.x.giveUp)
	return nil
}

func (w *writer) deadline(which int, t time.Time, act func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timers[which] != nil {
		w.timers[which].Stop()
		w.timers[which] = nil
	}
	if !t.IsZero() && !w.over {
		w.timers[which] = time.AfterFunc(max(time.Until(t), 0), act)
	}
}

// end ends the deadlines.
func (w *writer) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for _, t := range w.timers {
		if t != nil {
			t.Stop()
		}
	}
}
