package sent

import (
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/slot"
)

// Tally counts something for each endpoint. The zero tally counts nothing yet.
type Tally struct{ counts slot.Table[int] }

// Of is the count of a candidate, from 0 for one that is new in its slot.
func (t *Tally) Of(c *pick.Candidate) *int { return t.counts.At(c.Slot, c.Key) }

// Take takes one off the count of an endpoint, if that still has its slot.
func (t *Tally) Take(at int, key uint64) {
	if n := t.counts.Peek(at, key); n != nil {
		*n--
	}
}
