package bound

import "iter"

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
