package proxy

import "sync"

// Bounds of what is learnt of the ends of streams.
const (
	mostEnds   = 1024 // servers' kinds of streams that are remembered
	endsProve  = 2    // streams in a row with an end mark, after which one without was cut
	endsWeight = 64   // streams that are counted
)

// ends remembers which servers of an unknown kind end their streams with a mark.
type ends struct {
	mu     sync.Mutex
	marked map[streamKind]int // streams in a row that ended with a mark
}

// streamKind is what streams have in common that end alike.
type streamKind struct{ url, pool, api, path string }

// learn notes how a stream ended, and reports whether it was cut: all before it had a mark, and nothing shows that it
// is whole. A server that goes on without marks has changed, and is believed after a few. If there is no room left, all
// is learnt anew.
func (e *ends) learn(k streamKind, marked, whole bool) (cut bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, known := e.marked[k]
	switch {
	case marked:
		n = min(n+1, endsWeight)
	case whole:
		n = 0
	default:
		cut = n >= endsProve
		n /= 2
	}
	if n == 0 {
		delete(e.marked, k)
		return cut
	}
	if e.marked == nil || !known && len(e.marked) >= mostEnds {
		e.marked = make(map[streamKind]int)
	}
	e.marked[k] = n
	return cut
}
