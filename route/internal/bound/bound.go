// Package bound has the bounds that rooms share: of tables, of times, and of what one event does. Their exact numbers
// do not matter, since nothing that is usual comes near them.
//
// It owns these numbers, and Ring, which keeps the latest of many values. It knows nothing of what they bound.
package bound

import (
	"iter"
	"time"
)

const (
	// Few entries are in a table that is searched from end to end, of an endpoint or of what is rare in a fleet.
	Few = 64
	// Many entries are in a table that only engines and the configuration can fill, and in memory that is used again.
	Many = 4096
	// Most entries are in a table with one for each conversation, request or name that clients and peers bring.
	Most = 1 << 16
	// Step is how many endpoints, pools, requests or conversations one event does something for. The rest is for the
	// next event, so that decisions do not wait.
	Step = 32
	// Tokens are more than any context has.
	Tokens = 1 << 27
	// Unproved is for how long something is believed that nothing has confirmed yet.
	Unproved = 10 * time.Minute
	// Look is how many leases, spans or names of blocks one event looks at, a few ten ns each.
	Look = 2048
)

// Ring keeps the latest of many values. The zero Ring is empty.
type Ring[T any] struct {
	rows []T
	n    int // values so far
}

// Next is the place of another value. When most values are kept, which is the same number at each call, that is the
// place of the oldest, and still has it. It is valid until the next call.
func (r *Ring[T]) Next(most int) *T {
	if len(r.rows) < most {
		r.rows = append(r.rows, *new(T))
	}
	r.n++
	return &r.rows[(r.n-1)%most]
}

// Count is how many values there were, those that are no longer in the ring included.
func (r *Ring[T]) Count() int { return r.n }

// All are the values, in no order of time. It is valid until Next.
func (r *Ring[T]) All() []T { return r.rows }

// Latest goes through the n latest values, the oldest of them first.
func (r *Ring[T]) Latest(n int) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := r.n - min(n, len(r.rows)); i < r.n && yield(&r.rows[i%len(r.rows)]); i++ {
		}
	}
}
