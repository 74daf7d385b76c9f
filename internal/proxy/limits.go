package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/route"
)

// stop ends the current attempt, and one second later a write to a client that does not read. Only the first call has
// an effect: otherwise the deadline of the write would move on for ever.
func (c *call) stop(w *timeouts.Watch, cause error) {
	if w.Ended() {
		return
	}
	w.End(cause)
	if c.sent.Load() {
		c.client.GiveUp()
	}
}

// never is a limit that ends nothing.
const never = 100 * 365 * 24 * time.Hour

// within is a limit on an engine's silence; never where who carries the request ends it.
func (c *call) within(limit time.Duration) time.Duration {
	if c.Transport != nil && c.Transport.Timed() {
		return never
	}
	return limit
}

// errorSilence is the longest silence within an error. An engine has its text when it sends its status.
const errorSilence = 10 * time.Second

// silence is the longest silence within the answer, once its head has come.
func (a *attempt) silence() time.Duration {
	idle := a.c.bounds.Load().Idle
	if a.status >= http.StatusBadRequest {
		return min(idle, errorSilence)
	}
	return idle
}

// brief is a transport that bounds the wait for the text of an error by errorSilence. It does so for every reader of
// the answer.
type brief struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b brief) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		if w := timeouts.WatchOf(r.Context()); w != nil {
			w.Shorten(errorSilence)
		}
	}
	return res, err
}

// watchClient makes the call end when its client leaves: then net/http ends the request's context.
func (c *call) watchClient() {
	c.cancelable = timeouts.NewCancelable(c.R.Context())
	c.ctx = c.cancelable
	c.stopWatch = context.AfterFunc(c.cancelable.Context, c.left)
}

// unwatchClient undoes watchClient. It returns false when left is running: then the call must not be reused.
func (c *call) unwatchClient() bool {
	ok := c.stopWatch()
	c.cancelable.End(nil)
	return ok
}

// left ends the call's waits: the client is gone.
func (c *call) left() {
	c.cancelable.End(nil)
	// startAttempt checks cancelable after it has set these
	for _, w := range []*timeouts.Watch{c.watch.Load(), c.prefillWatch.Load()} {
		if w != nil {
			w.End(nil)
		}
	}
}

// patient is a context for waits outside an attempt: it ends when the client leaves, and with Abort. The function
// releases it.
func (c *call) patient() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	stop := context.AfterFunc(c.p.aborted, func() { cancel(timeouts.ErrShutdown) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// stopRetries prevents further attempts of the call. The registry calls it while locked.
func (c *call) stopRetries() { c.shutdown.Store(true) }

// abort ends the call, which is already forbidden further attempts. The registry calls it while locked.
func (c *call) abort() {
	c.client.StopReading()
	for _, w := range []*timeouts.Watch{c.watch.Load(), c.prefillWatch.Load()} {
		if w != nil {
			w.End(timeouts.ErrShutdown)
		}
	}
	if c.sent.Load() || c.client.Writing() {
		c.client.GiveUp()
	}
}

// check enforces the limits of attempts that are queued, or of the others. Proxy.Run calls it through the registry,
// while locked.
func (c *call) check(now time.Time, gone *timeouts.Unreachable, queued bool) {
	if !queued {
		c.client.Check(now)
	}
	for _, w := range []*timeouts.Watch{c.watch.Load(), c.prefillWatch.Load()} {
		if w == nil || w.Queued() != queued {
			continue
		}
		if !c.deadline.IsZero() && now.After(c.deadline) && !w.HasData() && !c.sent.Load() {
			c.stop(w, fault.ErrDeadline)
			continue
		}
		if cause := w.Overdue(now, gone, c.bounds.Load().Refusing, c.sent.Load()); cause != nil {
			c.stop(w, cause)
		}
	}
}

// skip lets a time that has just passed not count: the process did not run, as in a frozen container or a virtual
// machine that is moved, and what came meanwhile has not been read yet.
func (c *call) skip(passed time.Duration) {
	c.client.Skip(passed)
	for _, w := range []*timeouts.Watch{c.watch.Load(), c.prefillWatch.Load()} {
		if w != nil {
			w.Skip(passed)
		}
	}
}

// signs adds the times of the last signs of life of the call's engines.
func (c *call) signs(to *route.StreamsAlive, now time.Time) {
	c.watch.Load().Sign(to, (c.sent.Load() || c.commenting.Load()) && c.client.Waits(now), now)
	c.prefillWatch.Load().Sign(to, false, now)
}
