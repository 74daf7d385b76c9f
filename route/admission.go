package route

import (
	"errors"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/arrivals"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/speed"
)

// errHeld means that a turn has to wait before it is placed.
var errHeld = errors.New("held")

// engines is what admission asks of other rooms.
type engines struct {
	cache    cache.Reader
	speed    speed.Reader
	arrivals arrivals.Reader
}

// Room is an endpoint's KV cache in tokens; 0 unknown.
func (e engines) Room(slot int) int64 { return e.cache.Room(slot) }

// Epoch is the cache's generation, new when it is lost.
func (e engines) Epoch(slot int) uint32 { return e.cache.Epoch(slot) }

// MsPerToken is the time that an endpoint takes for one prompt token.
func (e engines) MsPerToken(slot int) float64 { return e.speed.MsPerToken(slot) }

// WorthKeeping is how long an idle conversation's cache is worth keeping.
func (e engines) WorthKeeping(wholeMs float64, kept bool) time.Duration {
	return e.arrivals.WorthKeeping(wholeMs, kept)
}

// Back is the share of the conversations that have been idle for some time, and come back before they have been for
// another.
func (e engines) Back(idle, within time.Duration) float64 { return e.arrivals.Back(idle, within) }

// admit drops the rows where the turn has no room, and reports whether that leaves any: otherwise it is to be held.
func (r *readers) admit(d *decision, forced pick.Reason) bool {
	v := &d.whole
	waits := d.req.Class == fleet.Turn && d.req.MayHold && d.req.MayQueue && len(d.req.Tried) == 0 && forced == ""
	if !r.admits || !waits || d.pool.Splits() || v.Beyond.Count > 0 {
		return true
	}
	d.turn = admission.Turn{
		Pool: d.pool.Name(), Origin: -1, Tokens: int64(v.PromptTokens + v.OutputTokens), Tenant: d.asker.Tenant,
		Share: d.req.QueueClass.Share, Priority: d.req.QueueClass.Priority,
		Request: d.req.ID, Name: clientsID(d.who.ID), TenantName: d.req.Tenant,
	}
	if d.pool.Divides() { // room at engines of another model is none for it
		d.turn.Pool = d.model
	}
	d.turn.Key, d.turn.Parent = r.conversations.Keys(d.scope(fleet.LegUnsplit), d.req, &d.who)
	if v.Home >= 0 {
		d.turn.Origin = v.Candidates[v.Home].Slot
	}
	d.turn.SharedAt = d.sharedAt[:0]
	d.shared = slices.Grow(d.shared[:0], len(v.Candidates))[:len(v.Candidates)]
	for i := range v.Candidates {
		c := &v.Candidates[i]
		d.shared[i] = r.admission.Shared(c.Slot, r.cache.Names(&d.text, d.req, c.Model))
		if d.shared[i] > 0 {
			d.turn.Shared = max(d.turn.Shared, d.shared[i])
			d.turn.SharedAt = append(d.turn.SharedAt, admission.SharedAt{Slot: c.Slot, Tokens: d.shared[i]})
		}
	}
	d.sharedAt = d.turn.SharedAt
	check := r.admission.Check(d.now, &d.turn, d.req.Hold)
	open := 0
	for i := range v.Candidates {
		if check.MayPlace(v.Candidates[i].Slot, d.shared[i]) {
			open++
		}
	}
	switch {
	case open == 0 && check.MayHold():
		return false
	case open > 0 && open < len(v.Candidates) && check.OthersHeld():
		narrow(v, func(i int) bool { return check.MayPlace(v.Candidates[i].Slot, d.shared[i]) })
	}
	return true
}

// holdUnlessFull is errHeld unless as many wait as may: then it says so.
func (r *readers) holdUnlessFull(d *decision) error {
	full, own, waiting := r.backlog.Full(d.asker, r.othersHeld(d))
	if !full {
		return errHeld
	}
	return &QueueFullError{
		Pool: d.pool.Name(), Tenant: own, Waiting: waiting, RetryAfter: retryAfter(r.admission.MaxHold(&d.turn)),
	}
}

// othersHeld is how many turns are held beside the request's own.
func (r *readers) othersHeld(d *decision) backlog.Waiting {
	w := backlog.Waiting{All: r.admission.Held(), Own: r.admission.HeldOf(d.asker.Tenant)}
	if !r.admission.Since(d.req.Hold).IsZero() {
		w.All, w.Own = w.All-1, w.Own-1
	}
	return w
}

// hold holds a turn. Its conversation is no longer idle.
func (r *Router) hold(d *decision) Hold {
	if rest := d.who.Entry.Rest; rest != 0 {
		if slot, since, ok := r.endIdle(&d.who.Entry); ok {
			r.arrivals.Return(d.now, slot, since)
		}
		r.conversations.Woken(d.now, &d.who)
	}
	if r.cfg.Sessions.HashOnly {
		d.turn.Name = ""
	}
	lease, until := r.admission.Hold(d.now, d.turn)
	return Hold{Lease: lease, Pool: d.pool.Name(), Until: until}
}

// addMember tells admission of a placed turn.
func (r *Router) addMember(d *decision, v *pick.View, f *reservation, c *pick.Candidate) {
	if v.Leg != fleet.LegUnsplit || d.pool.Splits() {
		return
	}
	_, parent := r.readers.conversations.Keys(d.scope(fleet.LegUnsplit), d.req, &d.who)
	turn := placedTurn(d.asker, c.Slot, v.PromptTokens+v.OutputTokens, v.FirstTurn)
	turn.Key, turn.Parent, turn.Prompt = f.conversation.Key(), parent, r.readers.cache.Names(&d.text, d.req, c.Model)
	turn.Cached, turn.Blocks = int64(c.CachedTokens), c.Blocks
	r.admission.TurnPlaced(d.now, f.index, &turn)
}

// placedTurn is what admission is told of a turn whichever router placed it, for the caller to add what it knows of the
// conversation and the prompt.
func placedTurn(who backlog.Asker, slot, tokens int, first bool) admission.PlacedTurn {
	return admission.PlacedTurn{
		Slot: slot, Tenant: who.Tenant, Share: who.QueueClass.Share, Priority: who.QueueClass.Priority,
		Tokens: int64(tokens), First: first,
	}
}

// admitHeld calls the held turns that may be placed now.
func (r *Router) admitHeld(now time.Time) {
	if !r.readers.admits && r.Held() == 0 {
		return
	}
	r.admission.Age(now, r.known)
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
	p, s := r.readers.pools.Named(name), r.scratch
	r.slots = r.slots[:0]
	for i := range p.Len() {
		m := p.Member(i)
		if p.Divides() {
			s.serving = r.readers.pools.Serving(m, s.serving[:0], &s.servingOthers)
			if !slices.ContainsFunc(s.serving, func(m pool.Member) bool { return m.Model() == name }) {
				continue
			}
		}
		if ep := m.Endpoint(); r.readers.usable(now, ep, 0) == health.Fit {
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

// HeldTurns lists the router's own held turns, the one with the earliest bound first, at most so many.
func (r *Router) HeldTurns(most int) []HeldTurn {
	var out []HeldTurn
	for _, w := range r.readers.admission.HeldTurns(most) {
		h := HeldTurn{
			Request: w.Request, Conversation: w.Name, Tenant: w.TenantName, Pool: w.Pool, Priority: w.Priority,
			Tokens: w.Tokens, Since: w.Since, Until: w.Until,
		}
		if w.Origin >= 0 {
			if ep := r.endpoints.At(w.Origin); ep.Exists() {
				h.Home = ep.Name()
			}
		}
		out = append(out, h)
	}
	return out
}

// HeldPool is what a pool's held turns need.
type HeldPool = admission.PoolHolds

// Held is the number of the router's own held turns.
func (r *Router) Held() int { return r.readers.admission.Held() }

// clientsID is a conversation's id, unless only another router knows it.
func clientsID(id string) string {
	if conversation.IsKey(id) {
		return ""
	}
	return id
}
