package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

const longestName = 128 // bytes kept of a request's id and a conversation's name

// short is a copy of a client's text, which keeps no header alive.
func short(s string) string { return strings.Clone(s[:min(len(s), longestName)]) }

// HeldTurn is a held turn, as it is shown.
type HeldTurn struct {
	Turn
	Lease        fleet.Lease
	Since, Until time.Time
}

// HeldTurns lists those of the held turns that wait, the one with the earliest bound first, at most so many.
func (r Reader) HeldTurns(most int) []HeldTurn {
	var out []HeldTurn
	for _, l := range r.t.order {
		for _, w := range l.turns[:min(len(l.turns), most)] {
			h := w.turn
			out = append(out, HeldTurn{Turn: h.Turn, Lease: h.lease, Since: h.since, Until: h.deadline})
		}
	}
	slices.SortStableFunc(out, func(a, b HeldTurn) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Lease, b.Lease))
	})
	return out[:min(len(out), most)]
}

// Since is when a turn was held; the zero time if it is not held.
func (r Reader) Since(lease fleet.Lease) time.Time {
	if h := r.t.heldTurns[lease]; h != nil {
		return h.since
	}
	return time.Time{}
}

// EachPool calls f with each pool that has held turns: how many wait, and the tokens that they need beside what members
// have.
func (r Reader) EachPool(f func(pool string, turns int, tokens int64)) {
	for _, l := range r.t.order {
		f(l.pool, len(l.turns), l.needs)
	}
}
