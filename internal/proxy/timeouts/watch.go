package timeouts

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/instant"
	"github.com/warmpath/warmpath/route"
)

// Watch is the context of one attempt, with its time limit and the engine's last sign of life. Any goroutine may use
// it.
type Watch struct {
	Cancelable // the attempt's context, with its cause
	at         part
	lease      fleet.Lease
	deadline   atomic.Int64 // instant at which the attempt is given up; 0 for never
	moved      atomic.Int64 // instant of the last sign of life, moved on by later waits for the client
	spoke      atomic.Int64 // the same without what servers send by the clock: comments and pings
	hasData    atomic.Bool  // the answer's first data has arrived
	queued     atomic.Bool  // at the router

	pool   string   // of the decision
	moves  bool     // the request can move to another endpoint
	barred []string // endpoints that are not to get it, or not again
}

type watchKey struct{}

// Value implements context.Context: contexts made of w's lead to it, see WatchOf.
func (w *Watch) Value(key any) any {
	if key == (watchKey{}) {
		return w
	}
	return w.Cancelable.Value(key)
}

// WatchOf is the Watch that a context is made of, nil for none.
func WatchOf(ctx context.Context) *Watch {
	w, _ := ctx.Value(watchKey{}).(*Watch)
	return w
}

// NewWatch makes the context of an attempt by a decision. service is that of route.Service, moves means that the
// request can move to another endpoint, but for those that are barred.
func NewWatch(ctx context.Context, d *route.Decision, service string, moves bool, barred []string) *Watch {
	w := &Watch{
		Cancelable: Cancelable{Context: ctx}, at: part{engine{d.Endpoint.Name, d.Endpoint.URL}, service},
		lease: d.Lease, pool: d.Pool, moves: moves, barred: barred,
	}
	w.queued.Store(d.Queued)
	return w
}

// At reports whether the attempt is at the endpoint.
func (w *Watch) At(endpoint string) bool { return w.at.endpoint == endpoint }

// Wait starts a time limit on the next sign of life.
func (w *Watch) Wait(limit time.Duration) {
	now := instant.Now()
	w.moved.Store(now)
	w.spoke.Store(now)
	w.deadline.Store(now + int64(limit))
}

// Dispatched notes that the attempt is queued at the router no more.
func (w *Watch) Dispatched() { w.queued.Store(false) }

// Queued reports whether the attempt is still queued at the router.
func (w *Watch) Queued() bool { return w.queued.Load() }

// Extend notes a sign of life, and ends the time limit no sooner than after limit.
func (w *Watch) Extend(limit time.Duration) {
	now := instant.Now()
	w.moved.Store(now)
	w.spoke.Store(now)
	w.deadline.Store(max(w.deadline.Load(), now+int64(limit)))
}

// Shorten ends the time limit no later than after limit.
func (w *Watch) Shorten(limit time.Duration) {
	until := instant.Now() + int64(limit)
	if deadline := w.deadline.Load(); deadline == 0 || deadline > until {
		w.deadline.Store(until)
	}
}

// Pause stops the time limit while the router does not read from the engine.
func (w *Watch) Pause() (limit int64) { return w.deadline.Swap(0) }

// Resume continues a paused limit with its remaining time.
func (w *Watch) Resume(limit int64, paused time.Duration) {
	w.moved.Add(int64(paused))
	w.spoke.Add(int64(paused))
	if limit != 0 {
		w.deadline.Store(limit + int64(paused))
	}
}

// Skip lets a time that has just passed not count.
func (w *Watch) Skip(passed time.Duration) {
	instant.Skip(&w.moved, passed)
	instant.Skip(&w.spoke, passed)
	instant.Skip(&w.deadline, passed)
}

// Alive notes a sign of life of the engine's server, as a comment or a ping; the time limit continues.
func (w *Watch) Alive() { w.moved.Store(instant.Now()) }

// FirstData notes that the answer's first data has arrived.
func (w *Watch) FirstData() { w.hasData.Store(true) }

// HasData reports whether the answer's first data has arrived.
func (w *Watch) HasData() bool { return w.hasData.Load() }

// Moved is the time of the engine's last sign of life, moved on by later waits for the client.
func (w *Watch) Moved() time.Time { return instant.Time(w.moved.Load()) }

// Sign adds to signs when the engine last said anything of its answer: now while the client holds up the stream. It
// adds nothing before the engine has begun its answer. Pings are no sign that it computes: like its health checks they
// go on when it does not.
func (w *Watch) Sign(signs *route.StreamsAlive, held bool, now time.Time) {
	if w == nil || !w.hasData.Load() && !held {
		return
	}
	last := now
	if !held {
		last = instant.Time(w.spoke.Load())
	}
	signs.Signs = append(signs.Signs, route.Sign{Lease: w.lease, At: last})
}

// downSilence is how many times as long an engine may be silent within an answer that answers no probes, or says that
// it is not well, as one that refuses connections: it may go on, as one that was stopped for a while.
const downSilence = 12

// Overdue is the reason to give up the attempt now; nil for none. refusing is how long a gone engine may be silent, and
// sent means that the client has seen a part of the answer.
func (w *Watch) Overdue(now time.Time, gone *Unreachable, refusing time.Duration, sent bool) error {
	deadline, at := w.deadline.Load(), instant.Of(now)
	why := gone.why(w.at)
	switch {
	case deadline == 0:
	case at >= deadline && w.hasData.Load():
		return ErrIdle
	case at >= deadline:
		return ErrNoFirstByte
	case why == nil:
	// it was sent after the look: it tries an endpoint whose ejection has ended since
	case w.moved.Load() > gone.looked:
	// a silent one has been waited for
	case !errors.Is(why, ErrSilent) && !errors.Is(why, ErrMute) && at-w.moved.Load() < int64(refusing):
	case errors.Is(why, ErrRefusing), w.moves && !sent && gone.others(w, why):
		return why
	case errors.Is(why, ErrDown) && w.hasData.Load() && at-w.moved.Load() >= downSilence*int64(refusing):
		return ErrStalled
	}
	return nil
}

// Causes that end an attempt.
var (
	ErrNoFirstByte = errors.New("the engine sent no first byte in time")
	ErrIdle        = errors.New("the engine fell silent within its answer")
	ErrRefusing    = errors.New("the engine fell silent and refuses connections")
	ErrDown        = errors.New("the engine is down and sent no first byte")
	ErrStalled     = errors.New("the engine fell silent within its answer and is down")
	ErrAsleep      = errors.New("the engine fell asleep and sent no first byte")
	ErrSilent      = errors.New("the engine gives no sign of life and sent no first byte")
	ErrMute        = errors.New("the engine gives no sign of life for such requests and sent no first byte")
	ErrShutdown    = errors.New("the router is shutting down")
)
