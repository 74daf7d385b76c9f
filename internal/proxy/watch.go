package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// watch is the context of one attempt, with its time limit and the engine's last sign of life. Any goroutine may use it.
type watch struct {
	leash    // the attempt's context; its cause says why
	endpoint string
	deadline atomic.Int64 // unix nanoseconds at which the attempt is given up, 0 never
	moved    atomic.Int64 // unix nanoseconds of the last sign of life; later by as long as the client was waited for since
	begun    atomic.Bool  // the answer's first data has come

	pool  string // of the decision
	moves bool   // the request may go elsewhere
}

// newWatch makes the context of an attempt at an endpoint of a pool. moves says that the request may go elsewhere.
func newWatch(ctx context.Context, endpoint, pool string, moves bool) *watch {
	return &watch{leash: leash{Context: ctx}, endpoint: endpoint, pool: pool, moves: moves}
}

// at reports whether the attempt is at that endpoint.
func (w *watch) at(endpoint string) bool { return w.endpoint == endpoint }

// wait starts a time limit on the next sign of life.
func (w *watch) wait(limit time.Duration) {
	now := time.Now().UnixNano()
	w.moved.Store(now)
	w.deadline.Store(now + int64(limit))
}

// pause stops the time limit while the router does not listen to the engine; resume lets the rest of it run, as if no time had passed.
func (w *watch) pause() (limit int64) { return w.deadline.Swap(0) }

func (w *watch) resume(limit int64, paused time.Duration) {
	w.moved.Add(int64(paused))
	if limit != 0 {
		w.deadline.Store(limit + int64(paused))
	}
}

// alive notes a sign of life; the time limit goes on.
func (w *watch) alive() { w.moved.Store(time.Now().UnixNano()) }

// begin notes that the answer's first data has come.
func (w *watch) begin() { w.begun.Store(true) }

// hasBegun reports whether the answer's first data has come.
func (w *watch) hasBegun() bool { return w.begun.Load() }

// lastMove is when the engine last gave a sign of life, later by as long as the client was waited for since.
func (w *watch) lastMove() time.Time { return time.Unix(0, w.moved.Load()) }

// sign adds to at, by endpoint, when the engine last gave a sign of life. One whose client holds it up counts as alive now. An engine that
// has not begun its answer has given none.
func (w *watch) sign(at map[string]time.Time, held bool, now time.Time) {
	if w == nil || !w.begun.Load() && !held {
		return
	}
	moved := now
	if !held {
		moved = w.lastMove()
	}
	if moved.After(at[w.endpoint]) {
		at[w.endpoint] = moved
	}
}

// overdue is why the attempt is to be given up now, nil when it is not. refusing is how long an engine may be silent that is gone, and sent says
// that the client has seen a part of the answer.
func (w *watch) overdue(now time.Time, gone *gone, refusing time.Duration, sent bool) error {
	deadline := w.deadline.Load()
	why := gone.endpoints[w.endpoint]
	switch {
	case deadline == 0:
	case now.UnixNano() >= deadline && w.begun.Load():
		return errIdle
	case now.UnixNano() >= deadline:
		return errNoFirstByte
	case why == nil:
	case !errors.Is(why, errSilent) && now.UnixNano()-w.moved.Load() < int64(refusing): // who is silent has been waited for
	case errors.Is(why, errRefusing), w.moves && !sent && gone.others(w.pool):
		return why
	}
	return nil
}

// Why an attempt was cancelled.
var (
	errNoFirstByte = errors.New("the engine sent no first byte in time")
	errIdle        = errors.New("the engine fell silent within its answer")
	errRefusing    = errors.New("the engine fell silent and refuses connections")
	errDown        = errors.New("the engine is down and sent no first byte")
	errSilent      = errors.New("the engine gives no sign of life and sent no first byte")
	errShutdown    = errors.New("the router is shutting down")
)
