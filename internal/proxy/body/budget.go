package body

import (
	"errors"
	"sync/atomic"
)

// ErrNoRoom rejects a request when limits.memory is used up.
var ErrNoRoom = errors.New(
	"the router's memory for requests is used up (limits.memory in its configuration); try again soon",
)

// Budget bounds the total memory of requests: bodies, heads, and what is read for them and kept whole.
type Budget struct {
	limit   atomic.Int64
	held    atomic.Int64
	refused atomic.Uint64
}

// NewBudget makes a budget of limit bytes.
func NewBudget(limit int64) *Budget {
	b := &Budget{}
	b.SetLimit(limit)
	return b
}

// SetLimit changes the number of bytes. Memory in use is not affected.
func (b *Budget) SetLimit(limit int64) { b.limit.Store(limit) }

// Take reserves n bytes, unless fewer are left. They must be given back once.
func (b *Budget) Take(n int) bool {
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

// Add counts n bytes without a limit: a short copy of a body already in memory, the head of an answer.
func (b *Budget) Add(n int) { b.held.Add(int64(n)) }

// Give returns n bytes that were taken or added.
func (b *Budget) Give(n int) { b.held.Add(-int64(n)) }

// Memory is the memory of requests.
type Memory struct {
	Held, Limit int64  // bytes of buffers and heads in use, and the most allowed
	Refused     uint64 // requests rejected for lack of room
}

// Memory returns the current figures.
func (b *Budget) Memory() Memory {
	return Memory{Held: b.held.Load(), Limit: b.limit.Load(), Refused: b.refused.Load()}
}
