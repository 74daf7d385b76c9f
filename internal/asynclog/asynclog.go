// Package asynclog is a slog.Handler whose caller never waits: records are queued, and formatted and written by a
// goroutine of its own. The queue is bounded by records and by bytes; what does not fit, because standard error is a
// pipe without a reader, is dropped and counted. It never blocks, and loses nothing that fits while it runs.
package asynclog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of the queue.
const (
	mostRecords = 4096
	mostBytes   = 4 << 20
)

// Handler queues what another handler writes. Make it with New, and end it with Close.
type Handler struct {
	*queue
	inner slog.Handler
}

// queue is shared by a handler and those made of it by WithAttrs and WithGroup.
type queue struct {
	items chan item
	bytes atomic.Int64 // of the strings in items

	stop  chan struct{} // closed by Close
	once  sync.Once
	ended chan struct{} // closed when all is written

	written, dropped atomic.Uint64
}

type item struct {
	to     slog.Handler
	record slog.Record
	bytes  int64
}

// New makes a handler in front of inner, and starts the goroutine that writes.
func New(inner slog.Handler) *Handler {
	q := &queue{items: make(chan item, mostRecords), stop: make(chan struct{}), ended: make(chan struct{})}
	go q.run()
	return &Handler{queue: q, inner: inner}
}

// Enabled is inner's.
func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.inner.Enabled(ctx, l) }

// WithAttrs is of the same queue.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{queue: h.queue, inner: h.inner.WithAttrs(attrs)}
}

// WithGroup is of the same queue.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{queue: h.queue, inner: h.inner.WithGroup(name)}
}

// Handle queues a record, or drops and counts it. It never blocks.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	frozen, size := freeze(r)
	if h.bytes.Add(size) > mostBytes || h.stopped() {
		h.drop(size)
		return nil
	}
	select {
	case h.items <- item{h.inner, frozen, size}:
	default:
		h.drop(size)
	}
	return nil
}

func (q *queue) drop(size int64) {
	q.bytes.Add(-size)
	q.dropped.Add(1)
}

func (q *queue) stopped() bool {
	select {
	case <-q.stop:
		return true
	default:
		return false
	}
}

// freeze is a record that does not change any more, and about how many bytes it holds: errors and values that make
// themselves are asked now, since what they speak of may be used again by the time they are written.
func freeze(r slog.Record) (slog.Record, int64) {
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	size := int64(len(r.Message))
	r.Attrs(func(a slog.Attr) bool {
		a.Value = a.Value.Resolve()
		if a.Value.Kind() == slog.KindAny {
			if err, ok := a.Value.Any().(error); ok {
				a.Value = slog.StringValue(err.Error())
			}
		}
		if a.Value.Kind() == slog.KindString {
			size += int64(len(a.Value.String()))
		}
		out.AddAttrs(a)
		return true
	})
	return out, size
}

// run writes until Close, and then what is left.
func (q *queue) run() {
	defer close(q.ended)
	for {
		select {
		case i := <-q.items:
			q.write(i)
		case <-q.stop:
			for {
				select {
				case i := <-q.items:
					q.write(i)
				default:
					return
				}
			}
		}
	}
}

func (q *queue) write(i item) {
	err := i.to.Handle(context.Background(), i.record)
	q.bytes.Add(-i.bytes)
	if err != nil {
		q.dropped.Add(1)
		return
	}
	q.written.Add(1)
}

// Written is the number of records written.
func (h *Handler) Written() uint64 { return h.written.Load() }

// Dropped is the number of records that were not, or could not be, written.
func (h *Handler) Dropped() uint64 { return h.dropped.Load() }

// Close has what is queued written, and waits for that, but no longer than it is told: a reader that does not read must
// not keep the process from ending. Records that come later are dropped.
func (h *Handler) Close(wait time.Duration) {
	h.once.Do(func() { close(h.stop) })
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-h.ended:
	case <-t.C:
	}
}
