package proxy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// An adapter that moves to another engine is unloaded here and loaded there. For as long as no list has been read again
// since, no endpoint is known to have it: a request for it waits for the lists, which are asked for at once.
const (
	seekFor    = 1500 * time.Millisecond // lists are asked for once a second at most
	movesFor   = 5 * time.Second         // from the first time that an engine lacked the model: then it is nowhere
	movesAgain = time.Minute             // a model that was nowhere for so long may move again
	mostMoved  = 64                      // models
)

// moved are the models that engines turned out not to have any more. It is safe for concurrent use.
type moved struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// lacked notes that an engine that listed a model does not have it.
func (m *moved) lacked(now time.Time, model string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.since[model]; ok && now.Sub(at) < movesAgain {
		return
	}
	if len(m.since) >= mostMoved || m.since == nil {
		m.since = map[string]time.Time{}
	}
	m.since[model] = now
}

// moves reports whether a model may be about to be found elsewhere.
func (m *moved) moves(now time.Time, model string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.since[model]
	return ok && now.Sub(at) < movesFor
}

// seek has the engines' lists read again and tries once more, since the request's model may just have been loaded at an
// endpoint that has not had the request. If it may have moved there, it tries for a while, whenever the fleet has
// changed. The error is errLeft.
func (c *call) seek(found func() bool) error {
	wait := c.p.relist("")
	if !c.leavesOne() {
		return nil
	}
	ctx, release := c.patient()
	defer release()
	ctx, stop := context.WithTimeout(ctx, seekFor)
	defer stop()
	if !c.p.moved.moves(time.Now(), c.Request.Model) {
		if wait(ctx); c.ctx.Err() != nil {
			return errLeft
		}
		found()
		return nil
	}
	for {
		changed := c.p.fleet.Changed()
		if found() || ctx.Err() != nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
		if c.ctx.Err() != nil {
			return errLeft
		}
	}
}

// leavesOne reports whether an endpoint has not had the request.
func (c *call) leavesOne() (is bool) {
	c.p.fleet.Each(func(e *fleet.Endpoint) { is = is || !slices.Contains(c.Request.Tried, e.Name) })
	return is
}

// isUnknown reports whether no endpoint has the model, or none any more.
func isUnknown(err error) bool {
	if none, ok := errors.AsType[*route.NoEndpointError](err); ok {
		return none.Departed
	}
	_, ok := errors.AsType[*route.UnknownModelError](err)
	return ok
}
