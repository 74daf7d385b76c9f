package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/arrivals"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/speed"
	"github.com/warmpath/warmpath/session"
)

// engines is what admission asks of other rooms: their Readers have the methods of admission.Engines.
type engines struct {
	cacheReader
	speedReader
	arrivalsReader
}

type (
	cacheReader    = cache.Reader
	speedReader    = speed.Reader
	arrivalsReader = arrivals.Reader
)

// admit drops the rows where the turn has no room. If that would leave none, it returns how the turn is to be held.
func (r *readers) admit(q *asked, f *filled) (hold *admission.Turn) {
	v := f.view
	waits := q.req.Class == fleet.Turn && q.req.MayHold && q.req.MayQueue && len(q.req.Tried) == 0 && f.forced == ""
	if !r.admits || !waits || q.pool.Splits() || v.Beyond.Count > 0 {
		return nil
	}
	turn := &q.turn
	*turn = admission.Turn{
		Pool: q.pool.Name(), Home: -1, Tokens: int64(v.PromptTokens + v.OutputTokens), Tenant: q.asker.Tenant,
		Share: q.req.QueueClass.Share, Priority: q.req.QueueClass.Priority,
		Request: q.req.ID, Name: clientsID(q.who.ID), TenantName: q.req.Tenant,
	}
	if q.pool.Divides() { // room at engines of another model is none for it
		turn.Pool = f.model
	}
	turn.Key, turn.Parent = r.conversations.Keys(q.scope(fleet.LegUnsplit), q.req, q.who)
	if v.Home >= 0 {
		turn.Home = v.Candidates[v.Home].Slot
	}
	q.shared = slices.Grow(q.shared[:0], len(v.Candidates))[:len(v.Candidates)]
	for i := range v.Candidates {
		c := &v.Candidates[i]
		turn.Names = r.cache.Names(&q.lookups, q.req, q.size.Tokens, c.Model)
		q.shared[i] = r.admission.Shared(c.Slot, turn.Names)
		turn.Shared = max(turn.Shared, q.shared[i])
	}
	check := r.admission.Check(q.now, turn, q.req.Hold)
	open := 0
	for i := range v.Candidates {
		if check.MayPlace(v.Candidates[i].Slot, q.shared[i]) {
			open++
		}
	}
	switch {
	case open == 0 && check.MayHold() && !tooLong(q.pool, q.size.Tokens+q.req.MaxTokens):
		return turn
	case open > 0 && open < len(v.Candidates):
		v.Full = len(v.Candidates) - open
		narrow(v, func(i int) bool { return check.MayPlace(v.Candidates[i].Slot, q.shared[i]) })
	}
	return nil
}

// tooLong reports whether a turn exceeds the context of all endpoints with the longest answer that it may get. Their
// engines refuse it at once. It would be held for long, since hardly any cache has room for it, and others behind it;
// as a member it would end others.
func tooLong(p pool.Pool, tokens int) bool {
	for i := range p.Len() {
		if most := p.Member(i).Context(); most == 0 || most > tokens {
			return false
		}
	}
	return true
}

// hold holds a turn. Its conversation is no longer idle.
func (r *Router) hold(q *asked, turn *admission.Turn) Hold {
	if rest := q.who.Entry.IdleSince; rest != 0 {
		if slot, since, ok := r.endIdle(&q.who.Entry); ok {
			r.arrivals.Return(q.now, slot, since)
		}
		r.conversations.EndIdle(q.now, q.who)
	}
	if r.cfg.Sessions.HashOnly {
		turn.Name = ""
	}
	lease, until := r.admission.Hold(q.now, *turn)
	return Hold{Lease: lease, Pool: q.pool.Name(), Until: until}
}

// tellAdmission tells admission of a turn that any router has placed, if its conversation becomes a member. parent is
// the one that started it.
func (r *Router) tellAdmission(now time.Time, res *reservation, parent session.Key) {
	j := r.backlog.Job(res.index)
	if res.decision.Leg != fleet.LegUnsplit || res.pool.Splits() || tooLong(res.pool, j.PromptTokens+j.MaxTokens) {
		return
	}
	names, bytes := r.cache.Chain(res.index)
	r.admission.TurnPlaced(now, res.index, &admission.PlacedTurn{
		Key: res.conversation.Key(), Parent: parent, Slot: j.Slot, Tenant: j.Tenant, Share: j.QueueClass.Share,
		Priority: j.QueueClass.Priority, Tokens: int64(j.PromptTokens + j.OutputTokens),
		Prompt: admission.Prompt{Names: names, Tokens: j.PromptTokens, Bytes: bytes},
	})
}

// admitHeld calls the held turns that may be placed now.
func (r *Router) admitHeld(now time.Time) {
	if !r.readers.admits && r.Held() == 0 {
		return
	}
	r.admission.Age(now)
	for len(r.dispatchedLeases) < bound.Step {
		lease, ok := r.admission.Admit(now, r.takingTraffic)
		if !ok {
			return
		}
		r.dispatchedLeases = append(r.dispatchedLeases, lease)
	}
}

// takingTraffic lists the endpoints of a pool that take new traffic; of an alias whose models divide its requests, and
// which has the name of one of them, those of that one.
func (r *Router) takingTraffic(now time.Time, name string) []int {
	p := r.pools.Named(name)
	r.slots = r.slots[:0]
	for i := range p.Len() {
		m := p.Member(i)
		if ep := m.Endpoint(); r.readers.usable(now, ep, 0) == health.Fit && (!p.Divides() || r.pools.Serves(m, name)) {
			r.slots = append(r.slots, ep.Slot())
		}
	}
	return r.slots
}

// HeldTurn is a turn that is held before it is placed, see Config.Admission.
type HeldTurn struct {
	Request      string // its X-Request-Id
	Conversation string // id; "" with Sessions.HashOnly, and where only another router knows it
	Tenant, Pool string
	Priority     fleet.Priority
	Tokens       int64  // of its prompt and the answer expected
	Home         string // endpoint where its conversation was last, which takes it first; "" for none
	Since, Until time.Time
}

// HeldTurns lists the router's own held turns, the one with the earliest bound first, and no more
// than most.
func (r *Router) HeldTurns(most int) []HeldTurn {
	var out []HeldTurn
	for _, w := range r.admission.HeldTurns(most) {
		h := HeldTurn{
			Request: w.Request, Conversation: w.Name, Tenant: w.TenantName, Pool: w.Pool, Priority: w.Priority,
			Tokens: w.Tokens, Since: w.Since, Until: w.Until,
		}
		if w.Home >= 0 {
			if ep := r.registry.At(w.Home); ep.Exists() {
				h.Home = ep.Name()
			}
		}
		out = append(out, h)
	}
	return out
}

// HeldPool is the held turns of a pool.
type HeldPool struct {
	Pool   string // its name, a model or alias
	Tokens int64  // that they need beside what its endpoints have cached
}

// Held is the number of the router's own held turns.
func (r *Router) Held() int { return r.admission.Held() }

// clientsID is a conversation's id, unless only another router knows it.
func clientsID(id string) string {
	if conversation.IsKey(id) {
		return ""
	}
	return id
}
