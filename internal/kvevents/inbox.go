package kvevents

import (
	"context"
	"sync"
)

// inbox holds messages read and not yet applied, bounded in number and bytes. Several connections may give; one stream
// takes.
type inbox struct {
	ready chan struct{} // capacity 1: there is a message
	room  chan struct{} // capacity 1: there is room again

	mu    sync.Mutex
	list  [][][]byte // frames; nil when a connection has ended
	bytes int
}

func newInbox() *inbox {
	return &inbox{ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// give adds a message once there is room. It returns false if done or ctx ends before.
func (b *inbox) give(ctx context.Context, done <-chan struct{}, frames [][]byte) bool {
	for !b.add(frames) {
		select {
		case <-b.room:
		case <-done:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// add adds a message if there is room: one of any size if nothing else waits.
func (b *inbox) add(frames [][]byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := sizeOf(frames)
	if len(b.list) >= queue || len(b.list) > 0 && b.bytes+size > mostQueued {
		return false
	}
	b.list = append(b.list, frames)
	b.bytes += size
	wake(b.ready)
	if len(b.list) < queue && b.bytes < mostQueued {
		wake(b.room) // another one that waits may go on
	}
	return true
}

// take removes the messages that are there.
func (b *inbox) take() [][][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list, b.bytes = nil, 0
	wake(b.room)
	return list
}

func sizeOf(frames [][]byte) (n int) {
	for _, f := range frames {
		n += len(f)
	}
	return n
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
