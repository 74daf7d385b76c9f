package admission

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/session"
)

// Turn is a turn to be placed.
type Turn struct {
	Key, Parent session.Key // of its conversation, and of the one that started that; zero for none
	Pool        string
	Origin      int      // slot where its conversation was last; -1 for none
	Tokens      int64    // of its prompt and the answer expected
	Prompt      []uint64 // names of the prompt's blocks, as of Placed; not kept while it is held
	Tenant      string
	Priority    fleet.Priority

	shared int64 // of Tokens, those that members had when it was held
}

// needs is the room that a turn takes of an endpoint.
func (t *Turn) needs(e *endpoint) int64 {
	if t.Prompt == nil {
		return max(0, t.Tokens-t.shared)
	}
	return max(0, t.Tokens-e.longest(t.Prompt).tokens)
}

// held is a turn that waits for room.
type held struct {
	Turn
	lease  fleet.Lease
	until  time.Time // its bound
	called bool

	slot     int   // with called: where there is room for it; -1 for nowhere
	promised int64 // there
}

// line is a pool's held turns.
type line struct {
	pool     string
	turns    []*held   // those not called, in the order of their bounds
	called   time.Time // when one was last called without room
	perToken float64   // ms that all endpoints together took then for a prompt token
	due      time.Time // when the next is
	first    *held     // with room: of the highest priority, that with the earliest bound
}

// Gate is what may be done with one turn.
type Gate struct {
	t      *Table
	turn   *Turn
	member *member // of its conversation, or of its family
	behind bool    // others go first
	called *held   // it was held and has been called
}

// Gate asks about a turn. continues is the hold that it continues, 0 for none.
func (r Reader) Gate(now time.Time, turn *Turn, continues fleet.Lease) Gate {
	g := Gate{t: r.t, turn: turn, called: r.t.held[continues]}
	if g.member = r.t.members[turn.Key]; g.member == nil && turn.Parent != (session.Key{}) {
		g.member = r.t.members[turn.Parent]
	}
	if l := r.t.lines[turn.Pool]; l != nil && l.first != nil && g.called == nil {
		g.behind = turn.Priority <= l.first.Priority && !now.Add(r.Bound(turn)).Before(l.first.until)
	}
	return g
}

// Open reports whether the turn may be placed at an endpoint now.
func (g *Gate) Open(slot int) bool {
	e := g.t.endpoints.Get(slot)
	switch {
	case e.keeps == 0, g.at(slot):
		return true
	case g.called != nil && g.called.called:
		return slot == g.called.slot || e.fits(g.turn)
	default:
		return !g.behind && e.fits(g.turn)
	}
}

// at reports whether the conversation or its family is a member there.
func (g *Gate) at(slot int) bool {
	m := g.member
	if m == nil {
		return false
	}
	if m.slot == slot {
		return true
	}
	return m.key != g.turn.Key && m.family != nil &&
		slices.ContainsFunc(m.family.parts, func(x *member) bool { return x.slot == slot })
}

// MayHold reports whether the turn may be held if it may be placed nowhere.
func (g *Gate) MayHold() bool { return !g.t.off && g.called == nil && len(g.t.held) < mostHeld }

// Short reports whether turns of the pool are held, so that those that are not may go only where there is room. While
// none is, memory is short at some endpoints alone, and the policy knows better.
func (g *Gate) Short() bool { return g.called != nil || g.t.lines[g.turn.Pool] != nil }

// fits reports whether there is room for a turn; an engine without members takes whatever comes.
func (e *endpoint) fits(t *Turn) bool { return e.n == 0 && e.promised == 0 || t.needs(e) <= e.free() }

// free is the room that is neither taken nor promised, less what is left for the growth of the members from turn to
// turn: without it each newcomer would soon expel another. That is the size of one, and of large ones a growth of a
// twentieth.
func (e *endpoint) free() int64 {
	return e.room - e.filled() - e.promised - min(e.tokens/int64(max(e.n, 1)), e.room/growth)
}

// holds are numbered above all leases of reservations.
const holds fleet.Lease = 1 << 63

// IsHold reports whether a lease is that of a held turn.
func IsHold(l fleet.Lease) bool { return l&holds != 0 }

// Hold holds a turn, and says until when at most.
func (t *Table) Hold(now time.Time, turn Turn) (lease fleet.Lease, until time.Time) {
	t.last++
	for _, slot := range t.slots {
		turn.shared = max(turn.shared, t.endpoints.Get(slot).longest(turn.Prompt).tokens)
	}
	turn.Prompt = nil
	h := &held{Turn: turn, lease: holds | t.last}
	l := t.lines[turn.Pool]
	if l == nil {
		l = &line{pool: turn.Pool, called: now, perToken: t.perToken()}
		t.lines[turn.Pool] = l
		t.order = append(t.order, l)
	}
	t.held[h.lease] = h
	t.waiting += h.Tokens - h.shared
	h.until = now.Add(t.Reader().Bound(&turn))
	i, _ := slices.BinarySearchFunc(l.turns, h, func(a, b *held) int {
		if a.until.After(b.until) {
			return 1
		}
		return -1
	})
	l.turns = slices.Insert(l.turns, i, h)
	l.plan()
	return h.lease, h.until
}

// Bound is the longest hold of a turn: Price times what it would wait if none were held. All conversations under way
// would have their whole prompts computed before it, or, of a small one, prompts as small as its own.
func (r Reader) Bound(turn *Turn) time.Duration {
	t := r.t
	tokens, n, perToken, engines := turn.Tokens, 1, 0.0, 0
	for _, slot := range t.slots {
		if e := t.endpoints.Get(slot); e.keeps > 0 {
			tokens, n, perToken, engines = tokens+e.tokens, n+e.n, perToken+e.perToken, engines+1
		}
	}
	if l := t.lines[turn.Pool]; l != nil {
		for _, x := range l.turns {
			tokens, n = tokens+t.routers*x.Tokens, n+int(t.routers)
		}
	}
	all := min(float64(tokens), float64(n)*float64(turn.Tokens)) / float64(max(engines, 1))
	return time.Duration(float64(Price*all*perToken) / float64(max(engines, 1)) * 1e6)
}

// perToken is the time in ms that the endpoints, all at work, take for a prompt token of this router.
func (t *Table) perToken() float64 {
	rate := 0.0
	for _, slot := range t.slots {
		if e := t.endpoints.Get(slot); e.keeps > 0 && e.perToken > 0 {
			rate += 1 / e.perToken
		}
	}
	return float64(t.routers) / max(rate, 1e-9)
}

// plan sets which turn goes first when there is room, and when the next goes without: evenly, so that each goes before
// its bound.
func (l *line) plan() {
	l.first = nil
	pace, tokens := 0.0, int64(0) // ns per token
	for _, h := range l.turns {
		if l.first == nil || h.Priority > l.first.Priority {
			l.first = h
		}
		tokens += max(h.Tokens, 1)
		if p := float64(max(h.until.Sub(l.called), 0)) / float64(tokens); tokens == max(h.Tokens, 1) || p < pace {
			pace = p
		}
	}
	if len(l.turns) > 0 {
		pace = min(pace, l.perToken/spend*1e6)
		l.due = l.called.Add(time.Duration(pace * float64(max(l.turns[0].Tokens, 1))))
	}
}

// Call takes a held turn for which there is room, or whose time has come, and promises it its room. open lists the
// endpoints of a pool that take turns now. ok is false if there is none.
func (t *Table) Call(now time.Time, open func(now time.Time, pool string) []int) (lease fleet.Lease, ok bool) {
	for _, l := range t.order {
		if len(l.turns) == 0 {
			continue
		}
		at := open(now, l.pool)
		h := l.first
		slot := t.roomFor(h, at)
		if slot < 0 && (!now.Before(l.due) || len(at) == 0) {
			h = l.turns[0]
			slot = t.leastFor(h, at)
			l.called, l.perToken = now, t.perToken()
		}
		if slot < 0 && len(at) > 0 {
			continue
		}
		h.called, h.slot = true, slot
		if slot >= 0 {
			e := t.endpoints.Get(slot)
			h.promised = h.needs(e)
			e.promised += h.promised
		}
		t.take(l, h)
		return h.lease, true
	}
	return 0, false
}

// roomFor is an endpoint with room for a turn, its conversation's own first, else that with the most; -1 for none.
func (t *Table) roomFor(h *held, at []int) int {
	best, most := -1, int64(0)
	for _, slot := range at {
		e := t.endpoints.Get(slot)
		free := e.free()
		if e.keeps > 0 && !e.fits(&h.Turn) {
			continue
		}
		if slot == h.Origin {
			return slot
		}
		if best < 0 || free > most {
			best, most = slot, free
		}
	}
	return best
}

// leastFor is the endpoint that would be filled least; -1 for none.
func (t *Table) leastFor(h *held, at []int) int {
	best, least := -1, 0.0
	for _, slot := range at {
		e := t.endpoints.Get(slot)
		if filled := float64(h.needs(e)-e.free()) / float64(max(e.room, 1)); best < 0 || filled < least {
			best, least = slot, filled
		}
	}
	return best
}

// take takes a turn out of its line.
func (t *Table) take(l *line, h *held) {
	l.turns = slices.DeleteFunc(l.turns, func(x *held) bool { return x == h })
	if l.plan(); len(l.turns) == 0 {
		delete(t.lines, l.pool)
		t.order = slices.DeleteFunc(t.order, func(x *line) bool { return x == l })
	}
}

// End ends a hold: its turn was placed or refused, or its client left. It reports whether there was one.
func (t *Table) End(lease fleet.Lease) bool {
	h := t.held[lease]
	if h == nil {
		return false
	}
	delete(t.held, lease)
	t.waiting -= h.Tokens - h.shared
	switch {
	case !h.called:
		t.take(t.lines[h.Pool], h)
	case h.slot >= 0 && h.slot < t.endpoints.Len():
		e := t.endpoints.Get(h.slot)
		e.promised = max(0, e.promised-h.promised)
	}
	return true
}

// Held is how many turns are held, those that were called and are not placed yet among them.
func (r Reader) Held() int { return len(r.t.held) }

// HeldOf is how many turns of a tenant wait, in the lines of all pools.
func (r Reader) HeldOf(tenant string) (n int) {
	for _, l := range r.t.order {
		for _, h := range l.turns {
			if h.Tenant == tenant {
				n++
			}
		}
	}
	return n
}

// Set is the working set of an endpoint, in tokens: its members' conversations, what they share counted once. room is
// that of its cache; 0 where nothing is held for it, and nothing is known of its members then.
func (r Reader) Set(slot int) (tokens, room int64) {
	if e := r.t.endpoints.Get(slot); e.keeps > 0 {
		return e.filled(), e.room
	}
	return 0, 0
}

// HeldTokens are those of the turns that wait.
func (r Reader) HeldTokens() int64 { return r.t.waiting }
