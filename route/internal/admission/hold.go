package admission

import (
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/session"
)

// Turn is a turn to be placed.
type Turn struct {
	Key, Parent session.Key // of its conversation, and of the one that started that; zero for none
	Pool        string
	Home        int      // slot where its conversation was last; -1 for none
	Tokens      int64    // of its prompt and the answer expected
	Shared      int64    // of Tokens, the most that members of one endpoint have, see Reader.Shared
	Names       []uint64 // of its prompt's blocks, for one of the models that it may get. A hold keeps a copy
	Tenant      string
	Share       float64 // the tenant's weight; 0 means 1
	Priority    fleet.Priority
	// for those who ask who waits, cut to longestName: its id, its conversation's name and its tenant's, which Tenant
	// is not where routers tell each other hashes
	Request, Name, TenantName string
}

// own is how many of its tokens members do not have, by which it is counted. An estimate of all of them may be lower
// than an earlier one of what they share.
func (x *Turn) own() int64 { return max(0, x.Tokens-x.Shared) }

// heldTurn is a turn that waits for room.
type heldTurn struct {
	Turn
	lease    fleet.Lease
	tenant   *tenant
	since    time.Time
	deadline time.Time // its bound
	admitted bool

	slot     int   // with admitted: where there is room for it; -1 for nowhere
	reserved int64 // there
}

const longestName = 128 // bytes kept of a request's id and a conversation's name

// short is a copy of a client's text, which keeps no header alive.
func short(s string) string { return strings.Clone(s[:min(len(s), longestName)]) }

// poolQueue is a pool's held turns that are not admitted.
type poolQueue struct {
	pool       string
	turns      []waiting // in the order of their bounds
	needs      int64     // tokens, all of them
	groups     []*group  // of the turns, by tenant and priority
	byOwner    map[owner]*group
	foremost   *group    // the group that goes next, as of moved; nil while that is not reckoned
	moved      uint64    // of the table, when foremost was reckoned
	admittedAt time.Time // when one was last admitted without room
	perToken   float64   // ms that all endpoints together took then for a prompt token
	due        time.Time // when the next is, see dueAt; zero while that is not reckoned
}

// waiting is what is read of all turns of a queue, beside each other in memory: there may be mostHeld of them.
type waiting struct {
	turn     *heldTurn
	deadline time.Time
	tokens   int64 // that it needs beside what members have, at least 1
}

// insert adds a turn to a list in the order of bounds.
func insert(to []waiting, h *heldTurn) []waiting {
	i, _ := slices.BinarySearchFunc(to, h, func(w waiting, h *heldTurn) int {
		if w.deadline.After(h.deadline) {
			return 1
		}
		return -1
	})
	return slices.Insert(to, i, waiting{h, h.deadline, max(h.own(), 1)})
}

// remove takes a turn out of such a list.
func remove(from []waiting, h *heldTurn) []waiting {
	i, _ := slices.BinarySearchFunc(from, h, func(w waiting, h *heldTurn) int { return w.deadline.Compare(h.deadline) })
	for from[i].turn != h { // those with one bound are beside each other
		i++
	}
	return slices.Delete(from, i, i+1)
}

// holdBit is in the leases of held turns, which are so above all leases of reservations.
const holdBit fleet.Lease = 1 << 63

// Hold holds a turn, and says until when it waits at most.
func (t *Table) Hold(now time.Time, turn Turn) (lease fleet.Lease, until time.Time) {
	t.last++
	turn.Request, turn.Name, turn.TenantName = short(turn.Request), short(turn.Name), short(turn.TenantName)
	turn.Names = slices.Clone(turn.Names)
	h := &heldTurn{Turn: turn, lease: holdBit | t.last, since: now, tenant: t.tenant(turn.Tenant, turn.Share)}
	l := t.queues[turn.Pool]
	if l == nil {
		l = &poolQueue{pool: turn.Pool, admittedAt: now, perToken: t.perToken(turn.Pool), byOwner: map[owner]*group{}}
		t.queues[turn.Pool] = l
		t.order = append(t.order, l)
	}
	t.heldTurns[h.lease] = h
	t.heldTokens += h.own()
	h.tenant.held += h.own()
	h.tenant.waits++
	h.deadline = now.Add(t.MaxHold(&turn))
	l.turns, l.needs, l.due = insert(l.turns, h), l.needs+h.own(), time.Time{}
	t.join(l, h)
	t.change(l.pool)
	return h.lease, h.deadline
}

// MaxHold is the longest hold of a turn: price times what it would wait if none were held. All conversations under way
// would have their prompts computed before it, what they share once at each engine. That of one much smaller than
// theirs is as if none were more than fit.Outlier times as large: a session that is held for less long than others is
// also evicted more often.
func (r Reader) MaxHold(turn *Turn) time.Duration {
	t := r.t
	own := turn.own()
	tokens, n, perToken, engines := own, 1, 0.0, 0
	for _, slot := range t.slots {
		if e := t.endpoints.Get(slot); e.keepIdle > 0 {
			tokens, n, perToken, engines = tokens+e.filled(), n+e.memberCount, perToken+e.perToken, engines+1
		}
	}
	if l := t.queues[turn.Pool]; l != nil {
		tokens, n = tokens+l.needs, n+len(l.turns)
	}
	turns, needs := t.needsElsewhere(turn.Pool)
	tokens, n = tokens+needs, n+turns
	all := min(float64(tokens), float64(fit.Outlier*n)*float64(own)) / float64(max(engines, 1))
	return fleet.Duration(float64(price*all*perToken) / float64(max(engines, 1)))
}

// perToken is the time in ms that the endpoints, all at work, take for a prompt token, where each router that holds
// turns of the pool has an even part of them.
func (t *Table) perToken(pool string) float64 {
	rate := 0.0
	for _, slot := range t.slots {
		if e := t.endpoints.Get(slot); e.keepIdle > 0 && e.perToken > 0 {
			rate += 1 / e.perToken
		}
	}
	return float64(1+len(t.elsewhere[pool])) / max(rate, 1e-9)
}

// dueAt is when the next turn goes without room: evenly, so that each goes before its bound.
func (l *poolQueue) dueAt() time.Time {
	if !l.due.IsZero() {
		return l.due
	}
	pace, tokens := l.perToken/spend*1e6, int64(0) // ns per token
	for i := range l.turns {
		w := &l.turns[i]
		tokens += w.tokens
		pace = min(pace, float64(max(w.deadline.Sub(l.admittedAt), 0))/float64(tokens))
	}
	l.due = l.admittedAt.Add(time.Duration(pace * float64(l.turns[0].tokens)))
	return l.due
}

// Admit takes a held turn for which there is room, or whose time has come, and reserves its room. open lists the
// endpoints of a pool that take turns now. ok is false if there is none.
func (t *Table) Admit(now time.Time, open func(now time.Time, pool string) []int) (lease fleet.Lease, ok bool) {
	for _, l := range t.order {
		if len(l.turns) == 0 {
			continue
		}
		at := open(now, l.pool)
		l.foremost, l.moved = t.first(l), t.moved
		h := l.foremost.head()
		slot := -1
		if !t.firstElsewhere(l.pool, l.foremost.precedence()) {
			slot = t.roomFor(h, at)
		}
		if slot < 0 {
			if x := t.firstBelow(l); x != nil {
				h, slot = x, t.leastFor(x, at)
			}
		}
		if slot < 0 && (len(at) == 0 || !now.Before(l.dueAt())) {
			h = l.turns[0].turn
			slot = t.leastFor(h, at)
			l.admittedAt, l.perToken = now, t.perToken(l.pool)
		}
		if slot < 0 && len(at) > 0 {
			continue
		}
		h.admitted, h.slot = true, slot
		t.admitted = append(t.admitted, h)
		if slot >= 0 {
			e := t.endpoints.Get(slot)
			h.reserved = e.needs(&h.Turn)
			e.reserved += h.reserved
			t.charge(h.tenant, h.reserved)
		}
		t.removeHeld(l, h)
		return h.lease, true
	}
	return 0, false
}

// roomFor is an endpoint with room for a turn, its conversation's own first, else that with the most; -1 for none.
func (t *Table) roomFor(h *heldTurn, at []int) int {
	best, most := -1, int64(0)
	for _, slot := range at {
		e := t.endpoints.Get(slot)
		needs := e.needs(&h.Turn)
		free := e.free() - needs
		if e.keepIdle > 0 && !e.fits(needs) && !e.makesRoom(h.Priority, needs) {
			continue
		}
		if slot == h.Home {
			return slot
		}
		if best < 0 || free > most {
			best, most = slot, free
		}
	}
	return best
}

// leastFor is the endpoint where a turn without room takes least time: to compute what it needs, and what it evicts of
// others once more. Of several it is the one with the most room; -1 for none.
func (t *Table) leastFor(h *heldTurn, at []int) int {
	best, least, most := -1, 0.0, int64(0)
	for _, slot := range at {
		e := t.endpoints.Get(slot)
		needs, free := e.needs(&h.Turn), e.free()
		ms := float64(needs+max(0, needs-free)) * e.perToken
		if best < 0 || ms < least || ms == least && free > most {
			best, least, most = slot, ms, free
		}
	}
	return best
}

// firstBelow is the turn with the earliest bound of those whose tenants take much less than their shares; nil for none.
func (t *Table) firstBelow(l *poolQueue) (first *heldTurn) {
	if t.level == 0 {
		return nil
	}
	for _, g := range l.groups {
		if x := g.head(); t.isBelow(&x.Turn, x.tenant) && (first == nil || x.deadline.Before(first.deadline)) {
			first = x
		}
	}
	return first
}

func (t *Table) removeHeld(l *poolQueue, h *heldTurn) {
	l.turns, l.needs, l.due = remove(l.turns, h), l.needs-h.own(), time.Time{}
	t.change(l.pool)
	g := l.byOwner[owner{h.tenant, h.Priority}]
	if g.turns = remove(g.turns, h); len(g.turns) == 0 {
		l.groups = slices.DeleteFunc(l.groups, func(x *group) bool { return x == g })
		delete(l.byOwner, g.owner)
	}
	l.foremost = nil
	if len(l.turns) == 0 {
		delete(t.queues, l.pool)
		t.order = slices.DeleteFunc(t.order, func(x *poolQueue) bool { return x == l })
	}
}

// EndHold ends a hold: its turn was placed or refused, or its client left. It reports whether there was one.
func (t *Table) EndHold(lease fleet.Lease) bool {
	h := t.heldTurns[lease]
	if h == nil {
		return false
	}
	delete(t.heldTurns, lease)
	t.heldTokens -= h.own()
	h.tenant.held -= h.own()
	h.tenant.waits--
	t.charge(h.tenant, -h.reserved)
	t.releaseTenant(h.tenant)
	if !h.admitted {
		t.removeHeld(t.queues[h.Pool], h)
		return true
	}
	t.admitted = slices.DeleteFunc(t.admitted, func(x *heldTurn) bool { return x == h })
	if h.slot >= 0 {
		t.endpoints.Get(h.slot).reserved -= h.reserved
	}
	return true
}

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
