package admission

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Reader reads a Table and changes nothing.
type Reader struct{ t *Table }

// Shared is how many tokens of a prompt an endpoint's members have, so that it takes no further room there for them; 0
// where nothing is held. names are of the prompt's blocks, each of which stands for all before it.
func (r Reader) Shared(slot int, names []uint64) int64 {
	e := r.t.endpoints.Get(slot)
	if e.keepIdle == 0 {
		return 0
	}
	return e.has(names)
}

// Held is how many turns are held, those that were admitted and are not placed yet among them.
func (r Reader) Held() int { return len(r.t.heldTurns) }

// HeldOf is how many of these are a tenant's.
func (r Reader) HeldOf(tenant string) int {
	if x := r.t.tenants[tenant]; x != nil {
		return x.waits
	}
	return 0
}

// WorkingSet is the working set of an endpoint, in tokens: its members' conversations, what they share counted once.
// room is that of its cache; 0 where nothing is held for it, and nothing is known of its members then.
func (r Reader) WorkingSet(slot int) (tokens, room int64) {
	if e := r.t.endpoints.Get(slot); e.keepIdle > 0 && !r.t.off {
		return e.filled(), e.room
	}
	return 0, 0
}

// HeldTokens are those of the turns that wait.
func (r Reader) HeldTokens() int64 { return r.t.heldTokens }

// HeldTurn is a held turn, as it is shown.
type HeldTurn struct {
	Turn
	Lease        fleet.Lease
	Since, Until time.Time
}

// HeldTurns lists those of the held turns that wait, the one with the earliest bound first, and no more than
// most.
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
