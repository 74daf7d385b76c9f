package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/route"
)

// errLeft means that the client has left before its request was placed.
var errLeft = errors.New("the client has left")

// awaitRoom waits while the router holds the request before it is placed, and decides again. The hold ends on every
// path: by that decision, or since the client leaves, its time is up, or the router shuts down. A client that would not
// wait as long as it may be held is told so at once.
func (c *call) awaitRoom(h *route.Hold) (route.Plan, error) {
	held := true
	defer func() {
		if held {
			c.p.fleet.Observe(route.Finished{Lease: h.Lease, Outcome: fleet.ClientGone})
		}
	}()
	began := time.Now()
	wait, why := c.wait, fault.ErrWaited
	if left := c.deadline.Sub(began); !c.deadline.IsZero() && (wait == 0 || left < wait) {
		wait, why = left, fault.ErrDeadline
	}
	if most := h.Until.Sub(began); wait != 0 && most > wait {
		return route.Plan{}, &fault.HeldError{Most: most, Cause: why}
	}
	ctx, release := c.patient()
	defer release()
	if wait != 0 {
		var stop func()
		ctx, stop = context.WithTimeoutCause(ctx, wait, why)
		defer stop()
	}
	if turn := c.p.fleet.Dispatched(h.Lease); turn != nil {
		awaitTurn(turn, ctx.Done())
	}
	c.served.Queued += time.Since(began)
	switch {
	case c.ctx.Err() != nil:
		return route.Plan{}, errLeft
	case errors.Is(context.Cause(ctx), why):
		return route.Plan{}, why
	case ctx.Err() != nil, c.shutdown.Load():
		return route.Plan{}, timeouts.ErrShutdown
	}
	held = false
	c.Request.Hold = h.Lease
	p, err := c.p.fleet.Decide(&c.Request)
	c.Request.Hold, c.Request.MayHold = 0, false
	return p, err
}
