package body

import (
	"errors"
	"sync/atomic"
)

// ErrNoRoom refuses a body for which limits.memory has no room left.
var ErrNoRoom = errors.New("the router holds as many bytes of request bodies as it may (limits.memory in its configuration); try again soon")

// Budget bounds the memory that request bodies take in all.
type Budget struct {
	limit   atomic.Int64
	held    atomic.Int64
	refused atomic.Uint64
}

// NewBudget allows so many bytes.
func NewBudget(limit int64) *Budget {
	b := &Budget{}
	b.SetLimit(limit)
	return b
}

// SetLimit allows another number of bytes. What is held already stays.
func (b *Budget) SetLimit(limit int64) { b.limit.Store(limit) }

// take reserves n bytes, unless that is more than is left. What is taken must be given back once.
func (b *Budget) take(n int) bool {
	for {
		held := b.held.Load()
		if held+int64(n) > b.limit.Load() {
			b.refused.Add(1)
			return false
		}
		if b.held.CompareAndSwap(held, held+int64(n)) {
			return true
		}
	}
}

// add counts n bytes that cannot be refused: a short copy of a body that is there already.
func (b *Budget) add(n int) { b.held.Add(int64(n)) }

// give returns n bytes that were taken or added.
func (b *Budget) give(n int) { b.held.Add(-int64(n)) }

// Memory says how much memory request bodies take.
type Memory struct {
	Held, Limit int64  // bytes of buffers now, and at most
	Refused     uint64 // requests refused because there was no room
}

// Memory returns the present figures.
func (b *Budget) Memory() Memory {
	return Memory{Held: b.held.Load(), Limit: b.limit.Load(), Refused: b.refused.Load()}
}
