package admission

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// tenant is what one tenant's members take of all caches. Where there is room for a held turn, the tenant that takes
// least for its weight goes first, so that one with many conversations leaves room for the others.
type tenant struct {
	name   string
	share  float64
	tokens int64 // of its members, and promised to its admitted turns
	held   int64 // of its held turns
	waits  int   // how many these are
	refs   int   // members and held turns
}

// tenant is the row of a tenant, with one member or held turn more.
func (t *Table) tenant(name string, share float64) *tenant {
	x := t.tenants[name]
	if x == nil {
		x = &tenant{name: name}
		t.tenants[name] = x
		t.tenantList = append(t.tenantList, x)
	}
	x.share = share
	x.refs++
	return x
}

// releaseTenant is the opposite.
func (t *Table) releaseTenant(x *tenant) {
	if x.refs--; x.refs == 0 && len(t.tenants) > mostSpare {
		delete(t.tenants, x.name)
		t.tenantList = slices.DeleteFunc(t.tenantList, func(y *tenant) bool { return y == x })
	}
}

// weight is its share.
func (x *tenant) weight() float64 {
	if x == nil || x.share <= 0 {
		return 1
	}
	return x.share
}

// demand is what a tenant would take for its weight if nothing were held.
type demand struct{ takes, weight float64 }

// fair finds the tenants' shares of the caches that are nearly full: the level at which they are full if no tenant
// takes more for its weight, and none more than it wants. One that takes much less than its share has no turns held,
// and the first to make room are those of tenants that take more. Otherwise the members of a tenant that came first,
// and goes on at once, would keep all others out.
func (t *Table) fair() {
	room, sum, weights := 0.0, 0.0, 0.0
	for _, slot := range t.slots {
		if e := t.endpoints.Get(slot); e.keepIdle > 0 && float64(e.filled()+e.reserved) > full*float64(e.room) {
			room += float64(e.room - e.shared)
		}
	}
	t.level, t.demands = 0, t.demands[:0]
	if room == 0 {
		return
	}
	for _, x := range t.tenantList {
		if all := float64(x.tokens + x.held); all > 0 {
			t.demands = append(t.demands, demand{all / x.weight(), x.weight()})
			sum += all
		}
	}
	switch {
	case sum <= full*room:
		return
	case len(t.demands) == 1: // the next to come shares with it
		t.level = room / (t.demands[0].weight + 1)
		return
	}
	slices.SortFunc(t.demands, func(a, b demand) int {
		return cmp.Or(cmp.Compare(a.takes, b.takes), cmp.Compare(a.weight, b.weight))
	})
	for _, d := range t.demands {
		weights += d.weight
	}
	for _, d := range t.demands {
		if t.level = room / weights; d.takes > t.level {
			return
		}
		room -= float64(d.takes * d.weight)
		weights -= d.weight
	}
}

// isBelow reports whether a turn's tenant takes much less than its share with it: sessions are too large for exact
// ones.
func (t *Table) isBelow(turn *Turn) bool {
	if t.level == 0 {
		return false
	}
	x := t.tenants[turn.Tenant]
	if x == nil {
		x = &tenant{share: turn.Share}
	}
	return float64(x.tokens+turn.Tokens-turn.Shared)/x.weight() <= surely*t.level
}

// takesTooMuch reports whether a tenant takes more than its share.
func (t *Table) takesTooMuch(x *tenant) bool { return t.level > 0 && x.takes() > t.level }

// rankOf is the place of a priority among them, from 0.
func rankOf(p fleet.Priority) int { return max(0, min(int(p-fleet.PriorityLow), 2)) }

// makesRoom reports whether an endpoint's members of lower priorities are enough to make room for so many tokens.
func (e *endpoint) makesRoom(p fleet.Priority, tokens int64) bool {
	lower := e.lowerThan(rankOf(p))
	return lower > 0 && lower >= tokens
}

// lowerThan is what members of lower ranks take.
func (e *endpoint) lowerThan(rank int) (tokens int64) {
	for _, x := range e.ranks[:rank] {
		tokens += x
	}
	return tokens
}

// takes is what its members take for its weight; nil has none.
func (x *tenant) takes() float64 {
	if x == nil {
		return 0
	}
	return float64(x.tokens) / x.weight()
}

// group is the turns of a tenant and a priority in a queue, at least one.
type group struct {
	tenant   *tenant
	priority fleet.Priority
	turns    []waiting // in the order of their bounds
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

// before reports whether a turn goes before another one.
func (a precedence) before(b precedence) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	if mine, others := a.tenant.takes(), b.tenant.takes(); a.tenant != b.tenant && mine != others {
		return mine < others
	}
	return a.deadline.Before(b.deadline)
}

// groupOf is the group of a turn, a new one if it is the first.
func (l *poolQueue) groupOf(h *heldTurn) *group {
	for _, g := range l.groups {
		if g.tenant == h.tenant && g.priority == h.Priority {
			return g
		}
	}
	l.groups = append(l.groups, &group{tenant: h.tenant, priority: h.Priority})
	return l.groups[len(l.groups)-1]
}

// first is the group whose first turn goes next where there is room. The queue has turns.
func (l *poolQueue) first() *group {
	best := l.groups[0]
	for _, g := range l.groups[1:] {
		if g.precedence().before(best.precedence()) {
			best = g
		}
	}
	return best
}
