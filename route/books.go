package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/health"
)

// flight is one open reservation.
type flight struct {
	generation uint32 // of the index; the high half of the Lease
	open       bool
	prefilled  bool // its first byte came: the prefill is no longer outstanding

	ep          *endpoint
	incarnation uint32 // of the endpoint when it was decided
	pool        *pool
	class       fleet.Class
	trial       bool // it tests an endpoint whose ejection has just ended
	routed      time.Time
	sent        time.Time // when it was handed on: at once, or when its turn came
	first       time.Time

	request, tenant, session string
	conversation             conversation.Ref
	caller                   uint64 // see Request.Caller
	promptBytes, exactTokens int
	text                     fleet.Text
	decision                 Decision

	prefill, decode, context int64 // what it added to the endpoint's books

	leg      fleet.Leg
	policy   pick.Policy // that placed it
	transfer int64       // tokens that are moved to it, of a decode leg, or away from it, of a prefill leg
	due      time.Time   // when what a decode leg needs is expected to be computed
	handed   time.Time   // when what a decode leg needs was on its way
	left     float64     // tokens of these that are not there yet, once it is on its way, see link
	area     float64     // of the endpoint's link then
	overdue  time.Time   // see Router.overdue; zero never

	waits              bool      // it stands in line, see line.go
	wakes              bool      // its conversation counts as busy at the endpoint, see rests
	maxTokens          int       // the client's bound on the answer, 0 when not stated
	index              uint32    // its place in Router.flights
	stream             bool      // its first byte comes when its prefill is done
	held               bool      // it may have waited for a place
	end                int64     // where its prompt ends in the queue, see wholes
	ready              time.Time // when its prompt is expected to be computed, of answers that come as a whole
	front, behind      float64   // tokens of prompts before and behind it that were computed while it was there, as far as can be told
	waitMs, msPerToken float64   // what was expected to be in front of it, and of the endpoint's speed
	others             int       // that were being answered there when its answer began
	beside             int       // that were being answered there when its prompt had been computed
	spent              float64   // of endpoint.prompting then
	alone              bool      // nothing else was outstanding there
	story              story     // see explain
}

// reserve enters a decision into the books.
func (r *Router) reserve(s *decision, v *table, t *conversation.Found, ep *endpoint, d *Decision, index int) fleet.Lease {
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
		maxTokens: req.MaxTokens, promptBytes: req.PromptBytes, exactTokens: req.PromptTokens, decision: *d,
		leg: d.Leg, policy: p.policyFor(d.Leg),
		index: i, stream: req.Stream || d.Leg == fleet.LegPrefill, waitMs: c.WaitMs - c.LinkMs, msPerToken: c.MsPerToken, story: f.story,
	}
	if req.Content != nil {
		f.text = req.Content.Text
	}
	switch req.Class {
	case fleet.Turn:
		f.prefill = int64(d.PromptTokens - d.CachedTokens)
		f.decode = int64(v.OutputTokens)
		f.context = int64(d.PromptTokens) + f.decode
		f.part(d)
	case fleet.Embed:
		f.prefill = int64(d.PromptTokens)
		f.context = f.prefill
	case fleet.Aside:
	}
	f.trial = r.health.Admit(ep.id())
	if r.lines(now, req, f) {
		r.stand(ep, f)
	}
	ep.load.Requests++
	ep.load.PrefillTokens += f.prefill
	ep.load.DecodeTokens += f.decode
	ep.load.ContextTokens += f.context
	if f.leg == fleet.LegDecode {
		ep.load.TransferRequests++
		f.due = now.Add(time.Duration(s.ready * 1e6))
		ep.coming = append(ep.coming, f.index)
		ep.load.TransferTokens += f.transfer
	}
	ep.requests++
	if !f.waits {
		r.handOn(now, f)
	}
	if req.Class == fleet.Turn {
		r.arrivals.Turn(now, ep.slot, ep.key)
	}
	prompt := r.prompt(s, t)
	r.cache.Open(i, &v.View, index, &s.text, &prompt, ep.load.ContextTokens)
	r.open++
	f.decision.Lease, f.decision.Waits = fleet.Lease(f.generation)<<32|fleet.Lease(i), f.waits
	d.Waits = f.waits
	return f.decision.Lease
}

// handOn enters that the engine gets a flight now, which is among the endpoint's requests.
func (r *Router) handOn(now time.Time, f *flight) {
	ep := f.ep
	others := ep.sent() - 1
	f.sent, f.alone = now, others == 0
	f.held = ep.places() > 0 && others >= ep.places()
	f.overdue = r.overdue(f)
	if f.incarnation == ep.incarnation {
		if took := ep.queue(now, f); took > 0 {
			r.arrivals.Spend(now, ep.slot, ep.key, took)
		}
	}
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

// firstByte takes the prefill off the books: the engine has computed it.
func (r *Router) firstByte(now time.Time, l fleet.Lease) {
	f := r.flight(l)
	if f == nil || f.prefilled || f.waits {
		return
	}
	f.first = now
	f.prefilled = true
	if f.class != fleet.Aside && f.incarnation == f.ep.incarnation {
		r.health.Alive(f.ep.id(), now)
		r.health.Accepted(f.ep.id(), f.sent)
	}
	if f.trial && f.incarnation == f.ep.incarnation { // it computes again; its stream may last for hours
		f.trial = false
		r.health.Withdraw(f.ep.id())
		r.health.Recovered(now, f.ep.id())
	}
	f.ep.load.PrefillTokens -= f.prefill
	r.computedLeg(now, f)
	if f.incarnation == f.ep.incarnation {
		r.unqueue(now, f)
	}
	f.answering(now)
	f.interrupts()
	r.cache.Computed(now, f.index)
	r.warm(now, f)
}

// finish releases a lease, draws the conclusions about its endpoint, and tells its story. It is nil for a lease that
// is not open.
func (r *Router) finish(now time.Time, ev *Finished) *Ended {
	f := r.flight(ev.Lease)
	if f == nil {
		r.doubleFinished++
		return nil
	}
	ep, sent := f.ep, !f.waits
	tellReleased(f, ev)
	r.leave(now, f)
	if f.waits {
		r.leaveLine(ep, f)
		ep.load.PrefillTokens -= f.prefill
	} else if !f.prefilled {
		ep.load.PrefillTokens -= f.prefill
		if f.incarnation == ep.incarnation {
			r.unqueue(now, f)
		}
	}
	ep.load.DecodeTokens -= f.decode
	ep.load.ContextTokens -= f.context
	if f.incarnation == ep.incarnation { // what an engine at an older address did says nothing about this one
		if f.trial {
			r.health.Withdraw(ep.id())
		}
		verdict := f.verdict(ev)
		r.health.Conclude(now, ep.id(), &verdict, func() health.Peers { return r.peers(now, f) })
		ep.speed.ended(f)
	}
	told := f.about(ev)
	lost, news := r.cache.Close(now, &cache.Ended{
		Lease: ev.Lease, Outcome: ev.Outcome, Usage: &told.Usage, Sent: sent, Splits: f.pool.parts, Answers: &f.pool.answers,
	})
	r.say(ep, news)
	if ev.Outcome == fleet.OK {
		f.pool.learn(f, &told.Usage)
		r.learnSpeed(now, f, &ev.Usage)
		r.learnPace(now, f, &ev.Usage)
		r.learnInterruptions(f, &ev.Usage)
	}
	r.warmed(now, f, ev)
	r.compare(ep)
	if ev.Response != "" {
		r.respond(now, ev.Response, f)
	}
	r.conversations.Close(now, &f.conversation)
	free := r.ended.Candidates
	r.ended = Ended{
		Request: f.request, Decision: f.decision, Class: f.class, Routed: f.routed, Sent: f.sent, FirstByte: f.first,
		Outcome: ev.Outcome, Usage: told.Usage, LostCache: lost,
	}
	r.retell(&r.ended, f, free)
	f.open, f.ep, f.pool, f.policy = false, nil, nil, nil
	f.decision, f.request, f.tenant, f.session, f.conversation = Decision{}, "", "", "", conversation.Ref{}
	r.free = append(r.free, uint32(ev.Lease))
	r.open--
	if ep.gone && ep.idle() {
		r.forget(ep)
	}
	return &r.ended
}
