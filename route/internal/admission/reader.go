package admission

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/session"
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

// Check is what may be done with one turn.
type Check struct {
	t      *Table
	turn   *Turn
	member *member   // of its conversation, or of its family
	lapsed *member   // its conversation, if it has been one
	yields bool      // others go first
	below  bool      // its tenant takes less than its share, see fair
	held   *heldTurn // its own hold, if it was held
}

// Check asks about a turn. continues is the hold that it continues, 0 for none.
func (r Reader) Check(now time.Time, turn *Turn, continues fleet.Lease) Check {
	c := Check{t: r.t, turn: turn, held: r.t.heldTurns[continues], lapsed: r.t.lapsed[turn.Key]}
	if c.member = r.t.members[turn.Key]; c.member == nil && turn.Parent != (session.Key{}) {
		c.member = r.t.members[turn.Parent]
	}
	c.below = r.t.isBelow(turn, r.t.tenants[turn.Tenant])
	if l := r.t.queues[turn.Pool]; c.held == nil && (l != nil || r.t.elsewhere[turn.Pool] != nil) {
		own := precedence{turn.Priority, r.t.tenants[turn.Tenant], now.Add(r.MaxHold(turn))}
		c.yields = l != nil && !own.before(r.t.first(l).precedence()) || r.t.firstElsewhere(turn.Pool, own)
	}
	return c
}

// has is how many tokens of a prompt the members have.
func (e *endpoint) has(prompt []uint64) int64 {
	return e.contents.upTo(prompt, e.contents.known(prompt))
}

// needs is the room that a turn takes. Where no member has what its prompt begins with, it takes room for that too, and
// evicts other conversations.
func (e *endpoint) needs(turn *Turn) int64 { return max(0, turn.Tokens-e.has(turn.Names)) }

// MayPlace reports whether the turn may be placed at an endpoint now. The endpoint's members already have the shared
// tokens of the turn.
func (g *Check) MayPlace(slot int, shared int64) bool {
	e, needs := g.t.endpoints.Get(slot), max(0, g.turn.Tokens-shared)
	switch {
	case e.keepIdle == 0, g.below, g.isMemberAt(slot), g.lapsed != nil && g.lapsed.slot == slot:
		return true
	case g.held != nil && g.held.admitted:
		return slot == g.held.slot || e.fits(needs)
	default:
		return !g.yields && (e.fits(needs) || e.makesRoom(g.turn.Priority, needs))
	}
}

func (g *Check) isMemberAt(slot int) bool {
	m := g.member
	if m == nil {
		return false
	}
	if m.slot == slot {
		return true
	}
	return m.key != g.turn.Key && m.family != nil &&
		slices.ContainsFunc(m.family.members, func(x *member) bool { return x.slot == slot })
}

// MayHold reports whether the turn may be held if it may be placed nowhere.
func (g *Check) MayHold() bool { return !g.t.off && g.held == nil && len(g.t.heldTurns) < mostHeld }

// fits reports whether the endpoint has room for these tokens. One without members takes a turn of any size.
func (e *endpoint) fits(tokens int64) bool {
	return e.memberCount == 0 && e.reserved == 0 || tokens <= e.free()
}

// free is the room that is neither reserved nor needed by members, less what is left for their growth from turn to
// turn: without it each newcomer would soon evict another. That is the size of one, and of large ones a growth of a
// twentieth.
func (e *endpoint) free() int64 {
	growing := min(e.tokens/int64(max(e.memberCount, 1)), e.room/growth)
	return e.room - e.contents.shared - e.needed - e.reserved - growing
}
