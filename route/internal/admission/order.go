package admission

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Where there is room, the held turns of a pool go by priority, then those of the tenant that takes least for its
// weight, then the one with the earliest bound.

// rankOf is the place of a priority among them, from 0.
func rankOf(p fleet.Priority) int { return max(0, min(int(p-fleet.PriorityLow), 2)) }

// makesRoom reports whether the tokens fit once the endpoint's members of lower priorities have ended. A member with a
// running turn ends together with that turn.
func (e *endpoint) makesRoom(p fleet.Priority, tokens int64) bool {
	by := lower(&e.ranks, rankOf(p))
	return by > 0 && tokens <= e.free()+by
}

// lower is what lower ranks have.
func lower(ranks *[3]int64, rank int) (tokens int64) {
	for _, x := range ranks[:rank] {
		tokens += x
	}
	return tokens
}

// owner is whose turns a group has.
type owner struct {
	tenant   *tenant
	priority fleet.Priority
}

// group is the turns of a tenant and a priority in a queue, at least one.
type group struct {
	owner
	turns []waiting // in the order of their bounds
}

// head is the one with the earliest bound.
func (g *group) head() *heldTurn { return g.turns[0].turn }

// precedence is that of its first turn.
func (g *group) precedence() precedence { return precedence{g.priority, g.tenant, g.turns[0].deadline} }

// precedence is when a turn goes where there is room.
type precedence struct {
	priority fleet.Priority
	tenant   *tenant
	deadline time.Time
}

func (a precedence) before(b precedence) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	if mine, others := a.tenant.takes(), b.tenant.takes(); a.tenant != b.tenant && mine != others {
		return mine < others
	}
	return a.deadline.Before(b.deadline)
}

// join adds a turn to its group, a new one if it is the first. The group that goes next stays known where it is plain:
// there may be mostHeld groups, and each newcomer asks for it.
func (t *Table) join(l *poolQueue, h *heldTurn) {
	of := owner{h.tenant, h.Priority}
	g := l.byOwner[of]
	isNew := g == nil
	if isNew {
		g = &group{owner: of}
		l.byOwner[of], l.groups = g, append(l.groups, g)
	}
	g.turns = insert(g.turns, h)
	switch {
	case l.foremost == nil, l.foremost == g:
	case isNew && g.precedence().before(l.foremost.precedence()):
		l.foremost = g
	case !isNew && g.head() == h:
		l.foremost = nil
	}
}

// first is the group whose first turn goes next where there is room. The queue has turns.
func (t *Table) first(l *poolQueue) *group {
	if l.foremost != nil && l.moved == t.moved {
		return l.foremost
	}
	best := l.groups[0]
	for _, g := range l.groups[1:] {
		if g.precedence().before(best.precedence()) {
			best = g
		}
	}
	return best
}
