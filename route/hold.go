package route

import (
	"errors"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/arrivals"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/health"
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

// MsPerToken is the time that an endpoint takes for one prompt token.
func (e engines) MsPerToken(slot int) float64 { return e.speed.MsPerToken(slot) }

// Pays is how long an idle conversation's cache is worth keeping.
func (e engines) Pays(wholeMs float64) time.Duration { return e.arrivals.Pays(wholeMs) }

// gate drops the rows where the turn has no room. It returns errHeld if that leaves none.
func (r *readers) gate(d *decision, forced pick.Reason) error {
	v := &d.whole
	waits := d.req.Class == fleet.Turn && d.req.Holds && d.req.Waits && len(d.req.Tried) == 0 && forced == ""
	if !r.admits || !waits || d.pool.Splits() || v.Beyond.Count > 0 {
		return nil
	}
	d.turn = admission.Turn{
		Pool: d.pool.Name(), Origin: -1, Tokens: int64(v.PromptTokens + v.OutputTokens), Prompt: d.text.Keys(),
		Tenant: d.asker.Tenant, Priority: d.req.Standing.Priority,
	}
	d.turn.Key, d.turn.Parent = r.conversations.Keys(d.scope(fleet.LegWhole), d.req, &d.who)
	if v.Home >= 0 {
		d.turn.Origin = v.Candidates[v.Home].Slot
	}
	g := r.admission.Gate(d.now, &d.turn, d.req.Held)
	open := 0
	for i := range v.Candidates {
		if g.Open(v.Candidates[i].Slot) {
			open++
		}
	}
	switch {
	case open == 0 && g.MayHold():
		return r.mayHold(d)
	case open > 0 && open < len(v.Candidates) && g.Short():
		narrow(v, func(c *pick.Candidate) bool { return g.Open(c.Slot) })
	}
	return nil
}

// mayHold is errHeld unless as many wait as may: then it says so.
func (r *readers) mayHold(d *decision) error {
	full := QueueFullError{Pool: d.pool.Name(), RetryAfter: r.admission.Bound(&d.turn)}
	if most := d.req.Standing.Waiting; most > 0 {
		full.Waiting = r.backlog.Waiting(d.asker.Tenant) + r.admission.HeldOf(d.asker.Tenant)
		if full.Tenant = full.Waiting >= most; full.Tenant {
			return &full
		}
	}
	if full.Waiting = r.backlog.Queued() + r.admission.Held(); r.most > 0 && full.Waiting >= r.most {
		return &full
	}
	return errHeld
}

// hold holds a turn. Its conversation is no longer idle.
func (r *Router) hold(d *decision) Hold {
	if rest := d.who.Entry.Rest; rest != 0 {
		r.wake(d.now, &d.who.Entry, true)
		r.conversations.Woken(d.now, &d.who)
	}
	lease, until := r.admission.Hold(d.now, d.turn)
	return Hold{Lease: lease, Pool: d.pool.Name(), Until: until}
}

// admitted tells admission of a placed turn.
func (r *Router) admitted(d *decision, v *pick.View, f *flight, c *pick.Candidate) {
	if v.Leg != fleet.LegWhole || d.pool.Splits() {
		return
	}
	_, parent := r.see.conversations.Keys(d.scope(fleet.LegWhole), d.req, &d.who)
	r.admission.Placed(d.now, f.index, &admission.Placed{
		Key: f.conversation.Key(), Parent: parent, Slot: c.Slot, Tokens: int64(v.PromptTokens + v.OutputTokens),
		First: v.FirstTurn, Cached: int64(c.CachedTokens), Blocks: c.Blocks, Prompt: d.text.Keys(),
	})
}

// callHeld calls the held turns that may be placed now.
func (r *Router) callHeld(now time.Time) {
	if !r.see.admits && r.Held() == 0 {
		return
	}
	r.admission.Age(now, r.known, 1+len(r.others.peers))
	for len(r.called) < backlog.MostSent {
		lease, ok := r.admission.Call(now, r.taking)
		if !ok {
			return
		}
		r.called = append(r.called, lease)
	}
}

// taking lists the endpoints of a pool that take new traffic.
func (r *Router) taking(now time.Time, name string) []int {
	p := r.see.pools.Named(name)
	r.slots = r.slots[:0]
	for i := range p.Len() {
		if ep := p.Member(i).Endpoint(); r.see.usable(now, ep, 0, false) == health.Fit {
			r.slots = append(r.slots, ep.Slot())
		}
	}
	return r.slots
}

// Held is the number of the router's own held turns.
func (r *Router) Held() int { return r.see.admission.Held() }
