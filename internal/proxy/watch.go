package proxy

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/proxy/h1"
)

// watch is what Proxy.Run and Proxy.Abort see of one attempt.
type watch struct {
	leash    // the attempt's context; its cause says why
	endpoint string
	deadline atomic.Int64 // unix nanoseconds at which the attempt is given up, 0 never
	moved    atomic.Int64 // unix nanoseconds of the last sign of life; later by as long as the client was waited for since
	begun    atomic.Bool  // the answer's first data has come

	pool  string // of the decision
	moves bool   // the request may go elsewhere
}

// pause stops the time limit while the router does not listen to the engine; resume lets the rest of it run, as if no time had passed.
func (w *watch) pause() (limit int64) { return w.deadline.Swap(0) }

func (w *watch) resume(limit int64, paused time.Duration) {
	w.moved.Add(int64(paused))
	if limit != 0 {
		w.deadline.Store(limit + int64(paused))
	}
}

// wait starts a time limit on the next sign of life.
func (w *watch) wait(limit time.Duration) {
	now := time.Now().UnixNano()
	w.moved.Store(now)
	w.deadline.Store(now + int64(limit))
}

// Why an attempt was cancelled.
var (
	errNoFirstByte = errors.New("the engine sent no first byte in time")
	errIdle        = errors.New("the engine fell silent within its answer")
	errRefusing    = errors.New("the engine fell silent and refuses connections")
	errDown        = errors.New("the engine is down and sent no first byte")
	errSilent      = errors.New("the engine gives no sign of life and sent no first byte")
	errShutdown    = errors.New("the router is shutting down")
	errDraining    = errors.New("the router is shutting down and takes no new requests")
)

// stop ends the attempt in flight, and soon after a write to a client that does not read. A second call changes nothing: the deadline of
// the write would never come.
func (c *call) stop(w *watch, cause error) {
	if w.over.Load() {
		return
	}
	w.end(cause)
	if c.sent.Load() {
		c.limitWrites(time.Now().Add(cutGrace))
	}
}

// tether has the call end when its client leaves.
func (c *call) tether() {
	c.leash = &leash{Context: c.r.Context()}
	c.ctx = c.leash
	if c.r.ProtoMajor == 1 && c.r.ContentLength != 0 { // else net/http is looking for the client's departure already
		if peer := h1.PeerOf(c.leash.Context); peer != nil && peer.Watch(c) {
			c.peer = peer
			return
		}
	}
	c.untie = context.AfterFunc(c.leash.Context, c.Left)
}

// untether ends that. It reports false when Left is running: then the call must not be used again.
func (c *call) untether() bool {
	if c.peer != nil {
		c.peer.Unwatch()
	}
	ok := c.untie == nil || c.untie()
	c.leash.end(nil)
	return ok
}

// Left ends what the call waits for: the client is gone.
func (c *call) Left() {
	c.leash.end(nil)
	for _, w := range []*watch{c.watch.Load(), c.aside.Load()} { // begin looks at the leash after it has set these
		if w != nil {
			w.end(nil)
		}
	}
}

// patient is a context for what the call waits for outside an attempt: it ends when the client leaves, and with Abort. The
// function lets go of it.
func (c *call) patient() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	stop := context.AfterFunc(c.p.aborted, func() { cancel(errShutdown) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// abort ends the call: no further attempt is made. It is called inside the registry's lock.
func (c *call) abort() {
	c.shutdown.Store(true)
	if c.reading.Load() != 0 {
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Unix(1, 0))
	}
	for _, w := range []*watch{c.watch.Load(), c.aside.Load()} {
		if w != nil {
			w.end(errShutdown)
		}
	}
	if c.sent.Load() || c.writing.Load() != 0 {
		c.limitWrites(time.Now().Add(cutGrace))
	}
}

// check enforces the limits. It is called by Proxy.Run inside the registry's lock.
func (c *call) check(now time.Time, gone *goneEndpoints) {
	if until := c.reading.Load(); until != 0 && now.UnixNano() >= until {
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Unix(1, 0))
	}
	c.checkClient(now)
	c.checkWatch(c.watch.Load(), now, gone)
	c.checkWatch(c.aside.Load(), now, gone)
}

func (c *call) checkWatch(w *watch, now time.Time, gone *goneEndpoints) {
	if w == nil {
		return
	}
	deadline := w.deadline.Load()
	why := gone.endpoints[w.endpoint]
	switch {
	case deadline == 0:
	case now.UnixNano() >= deadline && w.begun.Load():
		c.stop(w, errIdle)
	case now.UnixNano() >= deadline:
		c.stop(w, errNoFirstByte)
	case why == nil:
	case !errors.Is(why, errSilent) && now.UnixNano()-w.moved.Load() < int64(c.p.cfg.Refusing): // who is silent has been waited for
	case errors.Is(why, errRefusing), w.moves && !c.sent.Load() && gone.others(w):
		c.stop(w, why)
	}
}
