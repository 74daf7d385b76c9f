package sent

import (
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/slot"
)

// Tally is a counter per endpoint. The zero value is ready to use.
type Tally struct{ counts slot.Table[int] }

// Of is the counter of a candidate, 0 for one that is new in its slot.
func (t *Tally) Of(c *pick.Candidate) *int { return t.counts.At(c.Slot, c.Key) }

// Peek is the same for reading.
func (t *Tally) Peek(c *pick.Candidate) int {
	if n := t.counts.Peek(c.Slot, c.Key); n != nil {
		return *n
	}
	return 0
}

// Take decrements the counter of an endpoint, if that still has its slot.
func (t *Tally) Take(at int, key uint64) {
	if n := t.counts.Peek(at, key); n != nil {
		*n--
	}
}
