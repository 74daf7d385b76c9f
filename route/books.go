package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/backlog"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/health"
)

// flight is one open reservation.
type flight struct {
	generation uint32 // of the index; the high half of the Lease
	open       bool
	prefilled  bool // its first byte came: its prompt is computed

	ep          *endpoint
	incarnation uint32 // of the endpoint when it was decided
	pool        *pool
	class       fleet.Class
	trial       bool // it tests an endpoint whose ejection has just ended
	routed      time.Time

	request, tenant, session string
	conversation             conversation.Ref
	caller                   uint64 // see Request.Caller
	promptBytes, exactTokens int
	text                     fleet.Text
	decision                 Decision

	leg    fleet.Leg
	policy pick.Policy // that placed it
	wakes  bool        // its conversation counts as active at the endpoint, see arrivals
	index  uint32      // its place in Router.flights, and its number in the rooms' tables by lease
	story  story       // see explain
}

// reserve takes a lease, and enters the placement into the rooms: health, backlog, arrivals, cache.
func (r *Router) reserve(s *decision, v *pick.View, t *conversation.Found, ep *endpoint, d *Decision, index int) fleet.Lease {
	now, req, p, c := s.now, s.req, s.pool, &v.Candidates[index]
	var i uint32
	if n := len(r.free); n > 0 {
		i, r.free = r.free[n-1], r.free[:n-1]
	} else {
		i = uint32(len(r.flights))
		r.flights = append(r.flights, flight{})
	}
	f := &r.flights[i]
	*f = flight{
		generation: f.generation + 1, open: true, ep: ep, incarnation: ep.incarnation, pool: p, class: req.Class, routed: now,
		request: req.ID, tenant: req.Tenant, session: d.Session, caller: req.Caller,
		promptBytes: req.PromptBytes, exactTokens: req.PromptTokens, decision: *d,
		leg: d.Leg, policy: p.policyFor(d.Leg), index: i, story: f.story,
	}
	if req.Content != nil {
		f.text = req.Content.Text
	}
	f.trial = r.health.Admit(ep.id())
	rates := r.speed.Reader()
	waits := r.backlog.Open(now, i, backlog.Work{
		Slot: ep.slot, Class: req.Class, Leg: d.Leg, Stream: req.Stream || d.Leg == fleet.LegPrefill,
		PromptTokens: d.PromptTokens, CachedTokens: d.CachedTokens, OutputTokens: v.OutputTokens, MaxTokens: req.MaxTokens,
		WaitMs: c.WaitMs - c.LinkMs, MsPerToken: c.MsPerToken, TTFTMs: d.TTFTMs, ReadyMs: s.ready, MayQueue: f.mayQueue(req),
	}, rates).Queued
	ep.requests++
	if !waits {
		if took := r.backlog.Send(now, i, rates); took > 0 {
			r.arrivals.Spend(now, ep.slot, ep.key, took)
		}
	}
	if req.Class == fleet.Turn {
		r.arrivals.Turn(now, ep.slot, ep.key)
	}
	prompt := r.prompt(s, t)
	r.cache.Open(i, v, index, &s.text, &prompt, r.backlog.Reader().Load(ep.slot).ContextTokens)
	r.open++
	f.decision.Lease, f.decision.Waits = fleet.Lease(f.generation)<<32|fleet.Lease(i), waits
	d.Waits = waits
	return f.decision.Lease
}

// mayQueue reports whether a request can wait at the router for its turn: it computes a prompt, its door can wait, and nothing has happened to
// it yet. A decode leg waits for its prefill leg as it is.
func (f *flight) mayQueue(req *fleet.Request) bool {
	return req.Waits && req.Class == fleet.Turn && f.leg != fleet.LegDecode && !f.trial && !req.Fails &&
		req.Pin == "" && len(req.Tried) == 0 && len(req.TriedPrefill) == 0 && f.ep.spec.Part.Kind != fleet.Slot
}

// flight finds the reservation of a lease; nil when it is not open.
func (r *Router) flight(l fleet.Lease) *flight {
	i := uint32(l)
	if int(i) >= len(r.flights) {
		return nil
	}
	f := &r.flights[i]
	if !f.open || f.generation != uint32(l>>32) {
		return nil
	}
	return f
}

// firstByte takes in that the engine has computed a prompt: backlog, health, speed, the queue at the new speed, cache, conversation.
func (r *Router) firstByte(now time.Time, l fleet.Lease) {
	f := r.flight(l)
	if f == nil || f.prefilled || r.backlog.Reader().Job(f.index).Queued {
		return
	}
	f.prefilled = true
	rates := r.speed.Reader()
	j := r.backlog.Computed(now, f.index, rates)
	if f.class != fleet.Aside && f.incarnation == f.ep.incarnation {
		r.health.Alive(f.ep.id(), now)
		r.health.Accepted(f.ep.id(), j.Sent)
	}
	if f.trial && f.incarnation == f.ep.incarnation { // it computes again; its stream may last for hours
		f.trial = false
		r.health.Withdraw(f.ep.id())
		r.health.Recovered(now, f.ep.id())
	}
	r.speed.Computed(now, j)
	if j.Timed {
		r.backlog.Rebase(now, j.Slot, rates)
	}
	r.cache.Computed(now, f.index)
	r.warm(now, f)
}

// finish releases a lease, and has each room take in what the end of its request says. It is nil for a lease that is not open. The order of
// the steps is a contract:
//
//  1. the policy that keeps accounts;
//  2. backlog: load, queue and link are without the request from here on;
//  3. health: whose fault it was. Steps 1 to 3 read nothing of what is cached;
//  4. cache: compares the prediction with what was found, which may show that the cache is lost and begin a new epoch of it;
//  5. size, speed and stalls learn: after 2, since they count who is left;
//  6. conversation and arrivals: after 4, since they store the epoch;
//  7. the record of the request, which listeners hear.
func (r *Router) finish(now time.Time, ev *Finished) *Ended {
	f := r.flight(ev.Lease)
	if f == nil {
		r.doubleFinished++
		return nil
	}
	ep, sent := f.ep, !r.backlog.Reader().Job(f.index).Queued
	tellReleased(f, ev) // 1
	// 2
	j := r.backlog.Close(now, f.index, ev.Outcome == fleet.OK, ev.Usage.OutputTokens, r.speed.Reader())
	// 3: what an engine at an older address did says nothing about this one
	if f.incarnation == ep.incarnation {
		if f.trial {
			r.health.Withdraw(ep.id())
		}
		verdict := f.verdict(j.Sent, ev)
		r.health.Conclude(now, ep.id(), &verdict, func() health.Peers { return r.peers(now, f) })
	}
	// 4
	told := f.about(ev)
	lost, news := r.cache.Close(now, &cache.Ended{
		Lease: ev.Lease, Outcome: ev.Outcome, Usage: &told.Usage, Sent: sent, Splits: f.pool.parts, Answers: &f.pool.answers,
	})
	r.say(ep, news)
	// 5
	if ev.Outcome == fleet.OK {
		f.pool.learn(f, &told.Usage)
	}
	r.speed.Ended(now, j, ev.Outcome == fleet.OK, &ev.Usage)
	if ev.Outcome == fleet.OK {
		r.learnInterruptions(j, &ev.Usage)
	}
	// 6
	r.warmed(now, f, ev)
	if ev.Response != "" {
		r.respond(now, ev.Response, f)
	}
	r.conversations.Close(now, &f.conversation)
	// 7
	free := r.ended.Candidates
	r.ended = Ended{
		Request: f.request, Decision: f.decision, Class: f.class, Routed: f.routed, Sent: j.Sent, FirstByte: j.First,
		Outcome: ev.Outcome, Usage: told.Usage, LostCache: lost,
	}
	r.retell(&r.ended, f, j.Stream, free)
	f.open, f.ep, f.pool, f.policy = false, nil, nil, nil
	f.decision, f.request, f.tenant, f.session, f.conversation = Decision{}, "", "", "", conversation.Ref{}
	r.free = append(r.free, uint32(ev.Lease))
	r.open--
	if ep.gone && r.backlog.Reader().Idle(ep.slot) {
		r.forget(ep)
	}
	return &r.ended
}

// about is what the end of a leg says about its own endpoint. A decoder's count of the prompt and of what was cached is the
// prefiller's; the one token that a prefiller makes is no answer.
func (f *flight) about(ev *Finished) Finished {
	told := *ev
	switch f.leg {
	case fleet.LegPrefill:
		told.Usage.OutputTokens = 0
	case fleet.LegDecode:
		told.Usage.CachedTokens, told.Usage.CachedKnown = 0, false
	case fleet.LegWhole:
	}
	return told
}
