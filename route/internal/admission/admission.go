// Package admission holds turns back while the conversations under way need more KV cache than the engines have.
//
// Each prompt beyond what fits evicts another conversation's cache, which comes back and evicts the next: an engine
// then computes every prompt from its beginning. So some conversations are members of an endpoint and go on at once,
// and the turns of the others wait, before they are placed, until there is room or their time has come.
//
// It owns the members of each endpoint, what they take of its cache, and the turns that are held. It promises that a
// held turn is admitted or dropped exactly once, that none waits longer than its bound, and that nothing is held where
// all fits. In come turns (Turn, PlacedTurn), how they ended, and what other rooms know of endpoints (Engines); out
// come whether a turn may be placed (Check, in reader.go), its bound (MaxHold, in hold.go), and which held turn is next
// (Admit, there too). Tenants have shares of caches that are nearly full (tenant.go); what members have in common
// counts once (contents.go); who is no member any more goes on as long as its cache is there (lapsed.go); what other
// routers hold counts for the order (elsewhere.go). Sizes are in tokens, times a token takes in ms. It chooses no
// endpoint for a turn that has room at several, and reads no clock.
package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/arrivals"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/session"
	"github.com/warmpath/warmpath/slot"
)

const (
	// price is the longest hold, in times of what a turn would wait if none were held: each conversation's turn then
	// computes its whole prompt, one after the other. At 1 the held ones take all of the engines' time, and nothing is
	// kept.
	price = 1.8

	spend      = 0.15          // most of the engines' time that turns admitted without room take
	agesEvery  = arrivals.Tick // between two looks at what is known of the endpoints: idle times are told no finer
	growth     = 20            // a cache keeps a 20th free, into which its members grow
	mostHeld   = 10_000        // held turns; those beyond are placed
	mostFamily = 16            // conversations of a family that are known as such
	// of a cache: with more, tenants have shares of it. And of such a share: with less, a tenant's turns are not held
	plenty = 0.75
)

// Engines is what others know of an endpoint.
type Engines interface {
	Room(slot int) int64         // tokens of KV cache; 0 unknown, and then nothing is held for it
	Epoch(slot int) uint32       // another one once the cache was lost
	MsPerToken(slot int) float64 // time to compute one prompt token

	// WorthKeeping is how long an idle conversation's cache is worth keeping if computing a whole cacheful takes this
	// long; 0 if it is not. soFar is the answer before, since what is kept already is given up later.
	WorthKeeping(wholeMs float64, soFar time.Duration) time.Duration

	// Back is the share of the conversations idle for some time that come back before they have been for another.
	Back(idle, within time.Duration) float64
}

// Table is the members of all endpoints and the held turns.
type Table struct {
	Reader
	off        bool
	endpoints  slot.Table[endpoint]
	slots      slot.Order // of the endpoints, in order of declaration
	members    map[session.Key]*member
	spare      spare
	engines    Engines
	turns      slot.Table[*member]   // of the running ones, by lease
	queues     map[string]*poolQueue // of the pools with held turns
	tenants    map[string]*tenant    // those with members or held turns
	tenantList []*tenant             // the same
	moved      uint64                // changes of what tenants take or weigh, on which the order of groups rests
	level      float64               // what each tenant may take for its weight, see fair; 0 while memory is not short
	demands    []demand
	lapsed     map[session.Key]*member // see lapse
	order      []*poolQueue
	heldTurns  map[fleet.Lease]*heldTurn
	admitted   []*heldTurn // those of them that are admitted, and not placed yet
	heldTokens int64       // tokens of those
	last       fleet.Lease
	aged       time.Time

	elsewhere map[string][]peerQueue // what other routers hold, of pools of which they hold some
	changed   []string               // pools whose own queues have changed, see Changed
}

// endpoint is what its members take.
type endpoint struct {
	room     int64         // tokens of its cache; 0 unknown
	perToken float64       // ms
	keepIdle time.Duration // how long an idle member stays one; 0: nothing is held for this endpoint
	epoch    uint32        // of its cache

	tokens      int64    // of its members, without what they share with others
	needed      int64    // of these, those of conversations expected back
	ranks       [3]int64 // of the needed, those of members of each priority, the lowest first
	idleRanks   [3]int64 // of these, those of idle members
	contents    contents
	reserved    int64 // tokens of held turns that were admitted and are not placed yet
	memberCount int   // members
	idle        list  // of these, the idle ones, the one idle longest first
	lapsed      list  // those that are none any more, see lapse
	lapsedHave  int64 // tokens of these
}

// member is a conversation whose turns go on at once.
type member struct {
	key        session.Key
	slot       int
	names      []uint64 // of its latest prompt's blocks; empty if they are not counted
	whole      int64    // tokens, prompt and answer
	shared     int64    // of these, those that others have too: a system prompt, or a conversation branched off
	tokens     int64    // the rest
	computed   int64    // of the whole, those that a turn left in the cache, unless inCache is false
	inCache    bool     // a turn has been computed at the slot
	needed     int64    // of the tokens, while it is idle: less where it may not come back
	running    int
	idle       bool
	since      time.Time // when it became idle, or its family was active
	prev, next *member   // in a list
	rank       int       // of the priority of its last turn, see rankOf
	ended      bool      // its conversation has ended; it ends with its running turns
	family     *family
	tenant     *tenant
}

// family is a conversation and those that it has started.
type family struct {
	running int
	members []*member
}

// New returns a table without endpoints, of which engines tells what others know.
func New(off bool, engines Engines) *Table {
	t := &Table{
		off:       off,
		engines:   engines,
		lapsed:    map[session.Key]*member{},
		members:   map[session.Key]*member{},
		queues:    map[string]*poolQueue{},
		tenants:   map[string]*tenant{},
		heldTurns: map[fleet.Lease]*heldTurn{},
		elsewhere: map[string][]peerQueue{},
	}
	t.Reader = Reader{t}
	return t
}

// SetOff switches it off or on. Off there are no members, so that the turns that are held have room.
func (t *Table) SetOff(off bool) {
	if off == t.off {
		return
	}
	t.off = off
	t.members, t.spare = map[session.Key]*member{}, nil // running turns keep what they need of theirs
	t.lapsed = map[session.Key]*member{}
	for _, slot := range t.slots {
		e := t.endpoints.Get(slot)
		*e = endpoint{epoch: e.epoch, reserved: e.reserved}
	}
	t.tenantList = slices.DeleteFunc(t.tenantList, func(x *tenant) bool {
		if x.tokens, x.refs = 0, x.waits; x.waits == 0 {
			delete(t.tenants, x.name)
		}
		return x.waits == 0
	})
	for _, h := range t.admitted {
		t.charge(h.tenant, h.reserved)
	}
	t.moved++
	t.aged = time.Time{}
}

// AddEndpoint adds an endpoint.
func (t *Table) AddEndpoint(slot int) {
	*t.endpoints.Grow(slot) = endpoint{}
	t.slots = append(t.slots, slot)
	t.aged = time.Time{}
}

// RemoveEndpoint removes an endpoint.
func (t *Table) RemoveEndpoint(slot int) {
	t.slots.Remove(slot)
	maps.DeleteFunc(t.members, func(_ session.Key, m *member) bool {
		if m.slot == slot {
			t.dropMember(m)
		}
		return m.slot == slot
	})
	t.dropLapsed(t.endpoints.Get(slot))
	for _, h := range t.admitted {
		if h.slot == slot {
			h.slot = -1 // another endpoint may get the slot before the hold ends
		}
	}
	t.endpoints.Reset(slot)
}

// filled is the tokens that the members take, those that they share counted once.
func (e *endpoint) filled() int64 { return e.contents.shared + e.tokens }

// addIdle adds a member to the idle ones, as the latest.
func (t *Table) addIdle(now time.Time, m *member) {
	e := t.endpoints.Get(m.slot)
	m.since, m.idle = now, true
	e.idle.add(m)
	e.idleRanks[m.rank] += m.needed
}

func (t *Table) removeIdle(m *member) {
	if !m.idle {
		return
	}
	e := t.endpoints.Get(m.slot)
	m.idle = false
	e.idle.remove(m)
	e.idleRanks[m.rank] -= m.needed
}

func (t *Table) uncount(m *member) {
	t.removeIdle(m)
	t.account(m, -1)
}

// count puts a member on its endpoint's accounts.
func (t *Table) count(m *member) {
	m.tokens = max(0, m.whole-m.shared)
	m.needed = m.tokens
	t.account(m, 1)
}

// account adds a member to its endpoint's accounts by times, 1 or -1.
func (t *Table) account(m *member, by int) {
	e, tokens, needed := t.endpoints.Get(m.slot), int64(by)*m.tokens, int64(by)*m.needed
	e.memberCount += by
	e.tokens += tokens
	e.needed += needed
	e.ranks[m.rank] += needed
	t.charge(m.tenant, tokens)
}

// shares moves tokens of a member to what it shares: another member has them now too.
func (t *Table) shares(m *member, tokens int64) {
	m.shared += tokens
	left := max(0, m.whole-m.shared)
	less, needed := m.tokens-left, min(m.needed, left)
	e := t.endpoints.Get(m.slot)
	e.tokens -= less
	e.need(m, needed)
	t.charge(m.tenant, -less)
	m.tokens = left
}

// dropMember ends a membership.
func (t *Table) dropMember(m *member) {
	delete(t.members, m.key)
	t.uncount(m)
	t.endpoints.Get(m.slot).contents.cut(m, 0)
	t.releaseTenant(m.tenant)
	if f := m.family; f != nil {
		f.running -= m.running // whose ends are not heard of any more
		f.members = slices.DeleteFunc(f.members, func(x *member) bool { return x == m })
	}
}

// endMembership ends the membership of one without running turns.
func (t *Table) endMembership(m *member) {
	t.dropMember(m)
	t.spare.put(m)
}

// familyActive reports whether another conversation of its family runs.
func (m *member) familyActive() bool { return m.family != nil && m.family.running > 0 }

// expireIdle ends the memberships of those that have been idle for longer than pays. Their cache is still there.
func (t *Table) expireIdle(now time.Time, e *endpoint) {
	for n := e.idle.count; n > 0; n-- {
		m := e.idle.first
		if e.idle.count <= bound.Most && now.Sub(m.since) < e.keepIdle {
			return
		}
		t.expireUnlessActive(now, m)
	}
}

// evictIdle ends the memberships of those idle longest while the members do not fit: their cache is evicted next, as
// far as room is needed. None ends for what running turns of lower priorities take, which make room when they end.
func (t *Table) evictIdle(now time.Time, e *endpoint) {
	for n := e.idle.count; n > 0 && e.filled() > e.room; n-- {
		m := t.nextOut(e)
		if e.filled()-(lower(&e.ranks, m.rank)-lower(&e.idleRanks, m.rank)) <= e.room {
			break
		}
		t.expireUnlessActive(now, m)
	}
	t.trimLapsed(e)
}

// nextOut is the idle member that makes room first: the one idle longest if it hardly comes back. Otherwise of the
// bound.Few idle longest one of the lowest priority, and of these one whose tenant takes more than its share.
func (t *Table) nextOut(e *endpoint) *member {
	best := e.idle.first
	if best.needed < best.tokens/2 {
		return best
	}
	if lower(&e.idleRanks, best.rank) == 0 && (t.level == 0 || t.takesTooMuch(best.tenant)) {
		return best
	}
	for m, n := best, 0; n < bound.Few && m != nil; m, n = m.next, n+1 {
		if m.rank < best.rank || m.rank == best.rank && t.takesTooMuch(m.tenant) && !t.takesTooMuch(best.tenant) {
			best = m
		}
	}
	return best
}

// expireUnlessActive ends the membership of the one idle longest, or has it begin its idle time again while its family
// is active.
func (t *Table) expireUnlessActive(now time.Time, m *member) {
	if m.familyActive() {
		t.removeIdle(m)
		t.addIdle(now, m)
		return
	}
	t.dropMember(m)
	if t.endpoints.Get(m.slot).keepIdle > 0 {
		t.lapse(m)
	} else {
		t.spare.put(m)
	}
}

// ConversationEnded says that a conversation is over: its place is free, at once or after its running turns.
func (t *Table) ConversationEnded(key session.Key) {
	t.forgetLapsed(key)
	m := t.members[key]
	switch {
	case m == nil:
	case m.running > 0:
		m.ended = true
	default:
		t.endMembership(m)
	}
}

// Age takes in what is known of the endpoints now, and ends the memberships that no longer pay. It comes before
// questions. What another router says that it holds counts no longer than until its bound.
func (t *Table) Age(now time.Time) {
	if t.off && len(t.heldTurns) == 0 || now.Sub(t.aged) < agesEvery && !t.aged.IsZero() {
		return
	}
	t.aged = now
	t.dropElsewhere(func(x peerQueue) bool { return x.Until.Before(now) })
	for _, slot := range t.slots {
		e, of := t.endpoints.Get(slot), t.engines
		soFar := e.keepIdle
		e.room, e.perToken, e.keepIdle = of.Room(slot), of.MsPerToken(slot), 0
		if epoch := of.Epoch(slot); epoch != e.epoch {
			e.epoch = epoch
			for e.idle.count > 0 { // all but the conversations with a running turn have nothing left there
				t.endMembership(e.idle.first)
			}
			t.dropLapsed(e)
		}
		if e.room > 0 {
			e.keepIdle = of.WorthKeeping(float64(e.room)*e.perToken, soFar)
		}
		t.expireIdle(now, e)
		e.expect(now, of)
		t.trimLapsed(e)
	}
	t.fair()
}

// expect takes in how likely the idle members come back, beside when they became idle: some have ended and did not say
// so, and what they leave is evicted first.
func (e *endpoint) expect(now time.Time, of Engines) {
	if e.keepIdle == 0 || e.idle.count == 0 || e.filled() < e.room/2 {
		return
	}
	all, looked, share := max(of.Back(0, e.keepIdle), 1e-9), time.Duration(-1), 0.0
	for m := e.idle.first; m != nil; m = m.next {
		if idle := now.Sub(m.since).Truncate(agesEvery); idle != looked {
			looked, share = idle, min(1, of.Back(idle, e.keepIdle)/all)
		}
		needed := m.tokens
		if !m.familyActive() {
			needed = int64(float64(share * float64(m.tokens)))
		}
		e.need(m, needed)
	}
}

func (e *endpoint) need(m *member, tokens int64) {
	by := tokens - m.needed
	m.needed = tokens
	e.needed += by
	e.ranks[m.rank] += by
	if m.idle {
		e.idleRanks[m.rank] += by
	}
}

// PlacedTurn is a turn that was placed.
type PlacedTurn struct {
	Key, Parent session.Key // of its conversation, and of the one that started that; zero for none
	Slot        int
	Tenant      string
	Share       float64 // the tenant's weight; 0 means 1
	Priority    fleet.Priority
	Tokens      int64 // of its prompt and the answer expected
	Prompt      Prompt
}

// Prompt is what a turn's prompt begins with.
type Prompt struct {
	Names         []uint64 // of its blocks, each of which stands for all before it. They are not kept
	Tokens, Bytes int      // of the whole prompt
}

// TurnPlaced makes the conversation of a turn a member of the endpoint where the turn was placed. n is the number of
// its lease.
func (t *Table) TurnPlaced(now time.Time, n uint32, p *PlacedTurn) {
	if t.off || p.Key == (session.Key{}) {
		return
	}
	t.forgetLapsed(p.Key)
	e, m := t.endpoints.Get(p.Slot), t.members[p.Key]
	if m == nil {
		m = t.spare.take()
		m.key, m.tenant = p.Key, t.tenant(p.Tenant, p.Share)
		t.members[p.Key] = m
		t.joinFamily(m, p.Parent)
	} else {
		t.uncount(m)
		if m.slot != p.Slot {
			m.inCache = false
			t.endpoints.Get(m.slot).contents.cut(m, 0)
		}
	}
	m.slot, m.whole, m.rank, m.ended = p.Slot, p.Tokens, rankOf(p.Priority), false
	m.running++
	if e.keepIdle > 0 { // elsewhere nothing is held, and what is shared does not matter
		if owner, tokens := e.contents.replace(m, &p.Prompt); owner != nil {
			t.shares(owner, tokens)
		}
	}
	t.count(m)
	t.familyRuns(now, m, 1)
	*t.turns.Grow(int(n)) = m
	t.evictIdle(now, e)
}

// joinFamily makes a new member one of its parent's family.
func (t *Table) joinFamily(m *member, parent session.Key) {
	p := t.members[parent]
	if p == nil || p == m || p.family != nil && len(p.family.members) >= mostFamily {
		return
	}
	if p.family == nil {
		p.family = &family{running: p.running, members: []*member{p}}
	}
	m.family = p.family
	m.family.members = append(m.family.members, m)
}

// familyRuns counts a running turn of a family, whose idle conversations are as good as active then.
func (t *Table) familyRuns(now time.Time, m *member, by int) {
	if m.family == nil {
		return
	}
	m.family.running += by
	for _, x := range m.family.members {
		if x != m && x.idle {
			t.removeIdle(x)
			t.addIdle(now, x)
		}
	}
}

// TurnEnded is the end of a turn: tokens of its prompt and answer, 0 if unknown; computed is false if the engine has
// not computed them, and holds what it held before.
func (t *Table) TurnEnded(now time.Time, n uint32, tokens int64, computed bool) {
	if int(n) >= t.turns.Len() {
		return
	}
	m := *t.turns.Get(int(n))
	if m == nil {
		return
	}
	*t.turns.Get(int(n)) = nil
	m.running--
	if t.members[m.key] != m { // its endpoint has left
		return
	}
	t.familyRuns(now, m, -1)
	e := t.endpoints.Get(m.slot)
	t.uncount(m)
	switch {
	case computed:
		if tokens > 0 {
			m.whole = tokens
		}
		m.computed, m.inCache = m.whole, true
	case m.running == 0:
		m.whole = m.computed
	}
	t.count(m)
	if m.running > 0 {
		return
	}
	if !m.inCache || m.ended {
		t.endMembership(m)
		return
	}
	t.addIdle(now, m)
	t.expireIdle(now, e)
	t.evictIdle(now, e)
}
