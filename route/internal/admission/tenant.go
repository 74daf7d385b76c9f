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
	if x.share != share {
		x.share = share
		t.moved++
	}
	x.refs++
	return x
}

// takes adds to what a tenant takes.
func (t *Table) takes(x *tenant, tokens int64) {
	if tokens != 0 {
		x.tokens += tokens
		t.moved++
	}
}

// releaseTenant takes a member or held turn off a tenant's row.
func (t *Table) releaseTenant(x *tenant) {
	if x.refs--; x.refs == 0 && len(t.tenants) > mostSpare {
		delete(t.tenants, x.name)
		i := slices.Index(t.tenantList, x)
		t.tenantList = slices.Delete(t.tenantList, i, i+1)
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
		if e := t.endpoints.Get(slot); e.keepIdle > 0 && float64(e.filled()+e.reserved) > plenty*float64(e.room) {
			room += float64(e.room - e.contents.shared)
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
	case sum <= plenty*room:
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

// isBelow reports whether a turn's tenant, nil for one without a row, takes much less (plenty) than its share with it:
// sessions are too large for shares to be exact.
func (t *Table) isBelow(turn *Turn, x *tenant) bool {
	if t.level == 0 {
		return false
	}
	if x == nil {
		x = &tenant{share: turn.Share}
	}
	return float64(x.tokens+turn.own())/x.weight() <= plenty*t.level
}

// takesTooMuch reports whether a tenant takes more than its share.
func (t *Table) takesTooMuch(x *tenant) bool { return t.level > 0 && x.takes() > t.level }

// rankOf is the place of a priority among them, from 0.
func rankOf(p fleet.Priority) int { return max(0, min(int(p-fleet.PriorityLow), 2)) }

// makesRoom reports whether so many tokens fit once the endpoint's members of lower priorities have ended. A member
// whose turn runs ends with that turn.
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

// takes is what its members take for its weight; nil has none.
func (x *tenant) takes() float64 {
	if x == nil {
		return 0
	}
	return float64(x.tokens) / x.weight()
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
