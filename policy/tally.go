package policy

import (
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/slot"
)

// tally counts something for each endpoint. The zero tally counts nothing yet.
type tally struct{ counts slot.Table[int] }

// of is the count of a candidate, from 0 for one that is new in its slot.
func (t *tally) of(c *pick.Candidate) *int { return t.counts.At(c.Slot, c.Key) }

// take takes one off the count of an endpoint, if that still has its slot.
func (t *tally) take(at int, key uint64) {
	if n := t.counts.Peek(at, key); n != nil {
		*n--
	}
}
