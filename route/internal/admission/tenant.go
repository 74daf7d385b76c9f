package admission

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// tenant is what one tenant's members take of all caches. Where there is room for a held turn, the tenant that takes
// least for its weight goes first, so that one with many conversations leaves room for the others.
type tenant struct {
	name   string
	share  float64
	tokens int64  // of its members, and promised to its admitted turns
	refs   int    // members and held turns
	groups [3]int // place of its groups in the queue that was planned last, see poolQueue.group
}

// tenant is the row of a tenant, with one member or held turn more.
func (t *Table) tenant(name string, share float64) *tenant {
	x := t.tenants[name]
	if x == nil {
		x = &tenant{name: name}
		t.tenants[name] = x
	}
	x.share = share
	x.refs++
	return x
}

// releaseTenant is the opposite.
func (t *Table) releaseTenant(x *tenant) {
	if x.refs--; x.refs == 0 && len(t.tenants) > mostSpare {
		delete(t.tenants, x.name)
	}
}

// takes is what its members take for its weight; nil has none.
func (x *tenant) takes() float64 {
	switch {
	case x == nil:
		return 0
	case x.share > 0:
		return float64(x.tokens) / x.share
	default:
		return float64(x.tokens)
	}
}

// group is the turns of a tenant and a priority in a queue.
type group struct {
	tenant   *tenant
	priority fleet.Priority
	deadline time.Time // the earliest bound
	turn     *heldTurn // with that
}

// before reports whether a group's first turn goes before another's where there is room.
func (g *group) before(other *group) bool {
	if g.priority != other.priority {
		return g.priority > other.priority
	}
	if mine, others := g.tenant.takes(), other.tenant.takes(); g.tenant != other.tenant && mine != others {
		return mine < others
	}
	return g.deadline.Before(other.deadline)
}

// group adds the next turn of a queue, in the order of their bounds, to its groups.
func (l *poolQueue) group(h *heldTurn) {
	at := &h.tenant.groups[max(0, min(int(h.Priority-fleet.PriorityLow), 2))]
	if i := *at; i < len(l.groups) && l.groups[i].tenant == h.tenant && l.groups[i].priority == h.Priority {
		return
	}
	*at = len(l.groups)
	l.groups = append(l.groups, group{tenant: h.tenant, priority: h.Priority, deadline: h.deadline, turn: h})
}

// first is the group whose first turn goes next where there is room. The queue has turns.
func (l *poolQueue) first() *group {
	best := &l.groups[0]
	for i := range l.groups {
		if g := &l.groups[i]; g.before(best) {
			best = g
		}
	}
	return best
}
