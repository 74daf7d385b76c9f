package proxy

import (
	"context"
	"time"

	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/internal/proxy/patience"
)

// stop ends the attempt in flight, and soon after a write to a client that does not read. A second call changes nothing: the deadline of
// the write would never come.
func (c *call) stop(w *patience.Watch, cause error) {
	if w.Ended() {
		return
	}
	w.End(cause)
	if c.sent.Load() {
		c.client.GiveUp()
	}
}

// tether has the call end when its client leaves.
func (c *call) tether() {
	c.leash = patience.NewLeash(c.R.Context())
	c.ctx = c.leash
	if c.R.ProtoMajor == 1 && c.R.ContentLength != 0 { // else net/http is looking for the client's departure already
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
	c.leash.End(nil)
	return ok
}

// Left ends what the call waits for: the client is gone.
func (c *call) Left() {
	c.leash.End(nil)
	for _, w := range []*patience.Watch{c.watch.Load(), c.aside.Load()} { // begin looks at the leash after it has set these
		if w != nil {
			w.End(nil)
		}
	}
}

// patient is a context for what the call waits for outside an attempt: it ends when the client leaves, and with Abort. The
// function lets go of it.
func (c *call) patient() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	stop := context.AfterFunc(c.p.aborted, func() { cancel(patience.ErrShutdown) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// forbid has the call make no further attempt. It is called inside the registry's lock.
func (c *call) forbid() { c.shutdown.Store(true) }

// abort ends the call, which is forbidden already. It is called inside the registry's lock.
func (c *call) abort() {
	c.client.StopReading()
	for _, w := range []*patience.Watch{c.watch.Load(), c.aside.Load()} {
		if w != nil {
			w.End(patience.ErrShutdown)
		}
	}
	if c.sent.Load() || c.client.Writing() {
		c.client.GiveUp()
	}
}

// check enforces the limits. It is called by Proxy.Run inside the registry's lock.
func (c *call) check(now time.Time, gone *patience.Gone) {
	c.client.Check(now)
	for _, w := range []*patience.Watch{c.watch.Load(), c.aside.Load()} {
		if w == nil {
			continue
		}
		if !c.deadline.IsZero() && now.After(c.deadline) && !w.Begun() && !c.sent.Load() {
			c.stop(w, errDeadline)
			continue
		}
		if cause := w.Overdue(now, gone, c.p.cfg.Refusing, c.sent.Load()); cause != nil {
			c.stop(w, cause)
		}
	}
}

// signs notes when the engines of a call last gave a sign of life, by endpoint.
func (c *call) signs(at map[string]time.Time, now time.Time) {
	c.watch.Load().Sign(at, c.client.Waits(now), now)
	c.aside.Load().Sign(at, false, now)
}
