package timeouts

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/internal/proxy/h1"
)

// Cancelable is a context that its owner ends, with a cause. It does what context.WithCancelCause does for a single
// listener: a request makes two contexts, and those of package context, each with a table of listeners, take a fiftieth
// of the CPU time of a short request. context.Cause does not know its cause.
type Cancelable struct {
	context.Context // source of values; its end is not observed

	over  atomic.Bool
	mu    sync.Mutex
	cause error          // why it ended; guarded by mu
	done  chan struct{}  // made when asked for; guarded by mu
	tied  func()         // see h1.CancelNotifier; guarded by mu
	after map[int]func() // see AfterFunc; guarded by mu
	count int            // of calls of AfterFunc; guarded by mu
}

var _ h1.CancelNotifier = (*Cancelable)(nil)

// NewCancelable makes a Cancelable with the values of ctx.
func NewCancelable(ctx context.Context) *Cancelable { return &Cancelable{Context: ctx} }

// Ended reports whether it has ended.
func (l *Cancelable) Ended() bool { return l.over.Load() }

// End ends it, once. A nil cause means context.Canceled.
func (l *Cancelable) End(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	l.mu.Lock()
	if l.over.Load() {
		l.mu.Unlock()
		return
	}
	l.cause = cause
	l.over.Store(true)
	if l.done != nil {
		close(l.done)
	}
	tied, after := l.tied, l.after
	l.tied, l.after = nil, nil
	l.mu.Unlock()
	if tied != nil {
		tied()
	}
	for _, f := range after {
		go f()
	}
}

// Cause is the cause of its end; nil before.
func (l *Cancelable) Cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// Err is context.Canceled after the end.
func (l *Cancelable) Err() error {
	if l.over.Load() {
		return context.Canceled
	}
	return nil
}

// Done is closed at the end.
func (l *Cancelable) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.over.Load() {
			close(l.done)
		}
	}
	return l.done
}

// SetOnDone calls f at the end, or at once after it.
func (l *Cancelable) SetOnDone(f func()) {
	l.mu.Lock()
	if !l.over.Load() {
		l.tied = f
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	f()
}

// ClearOnDone removes the function of SetOnDone, and returns false when it is too late.
func (l *Cancelable) ClearOnDone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.tied != nil
	l.tied = nil
	return was
}

// AfterFunc runs f in a goroutine of its own after the end. Package context uses this method when it derives a context
// from this one.
func (l *Cancelable) AfterFunc(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over.Load() {
		go f()
		return func() bool { return false }
	}
	l.count++
	id := l.count
	if l.after == nil {
		l.after = map[int]func(){}
	}
	l.after[id] = f
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, was := l.after[id]
		delete(l.after, id)
		return was
	}
}
