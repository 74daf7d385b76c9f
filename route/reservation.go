package route

import (
	"math"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/session"
)

// reservation is an open reservation.
type reservation struct {
	generation uint32 // of the index; the high half of the Lease
	open       bool
	prefilled  bool // its first byte has come: prefill is done
	retry      bool // it has failed elsewhere

	ep     registry.Endpoint
	pool   pool.Pool
	class  fleet.Class
	trial  bool // it tests an endpoint after its ejection
	routed time.Time

	request, tenant, session string
	path                     string // see Request.Path
	mustLoad                 bool   // its model was not in memory when it was placed, and it needs it
	conversation             conversation.Ref
	caller                   uint64 // see Request.Caller
	promptBytes, exactTokens int
	window                   int // see Request.Window
	text                     fleet.Text
	decision                 Decision

	peer     peerLease // lease at the router that placed it; zero for this one
	leg      fleet.Leg
	released func(l fleet.Lease, answered bool) // hook of the policy that placed it, or nil
	// its conversation counts as active at the endpoint, see arrivals
	countsActive bool
	index        uint32      // its place in Router.reservations and in the rooms' tables by lease
	explanation  explanation // see explain
}

// reserve takes a lease and records the placement in the rooms: health, backlog, arrivals, cache.
func (r *Router) reserve(
	q *asked,
	p *placement,
	ep registry.Endpoint,
	readyMs float64,
	made *Decision,
) *reservation {
	now, req, v, c := q.now, q.req, p.view, p.row()
	f := r.newReservation()
	r.open++
	f.ep, f.pool, f.class, f.routed = ep, q.pool, req.Class, now
	f.request, f.tenant, f.session, f.caller = req.ID, req.Tenant, made.Session, req.Caller
	f.path, f.decision.Model = req.Path, made.Model
	f.promptBytes, f.exactTokens, f.window = req.PromptBytes, req.PromptTokens, req.Window
	f.leg, f.retry = made.Leg, len(tried(req, made.Leg)) > 0
	if req.Content != nil && len(req.Content.List) == 0 { // of several prompts some engines count the first alone
		f.text = req.Content.Text
	}
	f.trial = r.health.Admit(ep.Slot())
	r.health.AdmitService(now, ep.Slot(), f.service())
	rates := r.speed.Reader()
	r.replicas.seq++
	job := r.backlog.Open(now, f.index, backlog.Work{
		Slot: ep.Slot(), Class: req.Class, Leg: made.Leg, Stream: req.Stream || made.Leg == fleet.LegPrefill,
		PromptTokens: made.PromptTokens, CachedTokens: made.CachedTokens, OutputTokens: v.OutputTokens,
		FarTokens: c.Far, FetchTokens: int(c.Fetching(c.Far)), MaxTokens: req.MaxTokens,
		WaitMs: c.WaitMs - c.Link.WaitMs, MsPerToken: v.PerToken(c), TTFTMs: made.TTFTMs, ReadyMs: readyMs,
		SharedTokens: v.Shared(c), MayQueue: !f.trial && mayQueue(req, made.Leg, ep), Asker: q.asker,
		Origin: r.replicas.self, Seq: r.replicas.seq,
	}, rates)
	made.Queued, made.AtLimit, made.Greedy = job.Queued, job.AtLimit, job.Greedy
	r.registry.Placed(ep)
	r.worked = true
	r.noteModelLoad(now, f)
	if !made.Queued {
		if took := r.backlog.Send(now, f.index, rates); took > 0 {
			r.arrivals.Spend(now, ep.Slot(), took)
		}
	}
	if req.Class == fleet.Turn {
		r.arrivals.Turn(now, ep.Slot())
	}
	r.describeShort(now, ep)
	prompt := r.readers.prompt(q, v.Leg, p.who)
	r.cache.Open(f.index, v, p.choice.Index, &q.text, &prompt)
	made.Lease = fleet.Lease(f.generation)<<32 | fleet.Lease(f.index)
	f.decision = *made
	return f
}

// noteModelLoad notes whether a request waits for its model to be loaded.
func (r *Router) noteModelLoad(now time.Time, f *reservation) {
	if f.class == fleet.Auxiliary {
		return
	}
	slot, model := f.ep.Slot(), f.decision.Model
	f.mustLoad = f.ep.MustLoad(now, r.readers.staleAfter, model, f.window) ||
		r.readers.health.LoadsModel(now, slot, model)
	if r.endpoints.LoadOnDemand() && f.peer.peer == 0 { // other routers do not tell it
		r.registry.ModelAsked(now, f.ep, model, f.window)
	}
	if f.mustLoad {
		r.health.LoadingModel(now, slot, model)
	}
}

// newReservation allocates a reservation.
func (r *Router) newReservation() *reservation {
	n := len(r.free)
	if n == 0 {
		r.reservations = append(r.reservations, reservation{
			generation: 1, open: true,
			index: uint32(len(r.reservations)),
		})
		return &r.reservations[len(r.reservations)-1]
	}
	f := &r.reservations[r.free[n-1]]
	r.free = r.free[:n-1]
	f.generation = f.generation%math.MaxInt32 + 1 // leases stay below those of held turns
	f.open = true
	return f
}

// reservation is the reservation of a lease; nil when it is not open or belongs to another router.
func (r *Router) reservation(l fleet.Lease) *reservation {
	i := uint32(l)
	if int(i) >= len(r.reservations) {
		return nil
	}
	f := &r.reservations[i]
	if !f.open || f.generation != uint32(l>>32) || f.peer.peer != 0 {
		return nil
	}
	return f
}

// firstByte records that a prompt has been computed: backlog, health, speed, the queue at the new speed, cache,
// conversation.
func (r *Router) firstByte(now time.Time, l fleet.Lease) {
	f := r.reservation(l)
	if f == nil || f.prefilled || r.backlog.Reader().Job(f.index).Queued {
		return
	}
	r.tellNews(News{Kind: NewsFirstByte, Lease: l})
	r.computed(now, now, f)
}

// computed records that the prompt of any router's lease was computed. at is when it happened.
func (r *Router) computed(now, at time.Time, f *reservation) {
	f.prefilled = true
	rates := r.speed.Reader()
	j := r.backlog.Computed(at, f.index, rates)
	if f.peer.peer == 0 && f.service() != "" {
		r.health.Heard(f.ep.Slot(), f.service(), now)
		if f.class != fleet.Turn {
			r.health.Took(f.ep.Slot(), f.service(), now.Sub(j.Sent))
		}
	}
	if f.peer.peer == 0 && f.class != fleet.Auxiliary {
		r.health.Alive(f.ep.Slot(), now)
		r.health.Begun(f.ep.Slot(), j.Sent)
		r.health.Accepted(f.ep.Slot(), j.Sent)
	}
	if f.trial { // it computes again; its stream may last for hours
		f.trial = false
		r.health.Withdraw(f.ep.Slot())
		r.health.Recovered(now, f.ep.Slot())
	}
	if f.mustLoad { // its time is that of loading
		r.registry.ModelLoaded(f.ep, at.Sub(j.Sent))
		r.health.ModelLoaded(now, f.ep.Slot(), f.decision.Model)
	} else {
		r.speed.Computed(at, j)
	}
	if j.Timed {
		r.backlog.Rebase(at, j.Slot, rates)
	}
	r.cache.Computed(now, f.index)
	r.storeComputed(now, f)
	r.describeShort(now, f.ep)
}

// finish releases a lease; each room then takes in the result of its request. It returns nil for a lease that is not
// open. The order of the steps is a contract:
//
//  1. the policy's own accounts;
//  2. backlog: from here on load, queue and link exclude the request;
//  3. health: which side is to blame. Steps 1 to 3 read no cached tokens;
//  4. cache: compares prediction and report, which may show a lost cache and begin a new epoch;
//  5. size and speed learn: after 2, since they count the remaining requests; the registry learns which paths it has;
//  6. conversation and arrivals: after 4, since they store the epoch;
//  7. the record of the request for listeners.
func (r *Router) finish(now time.Time, ev *Finished) *Ended {
	f := r.reservation(ev.Lease)
	if f == nil {
		r.doubleFinished++
		return nil
	}
	n := News{Kind: NewsEnded, Lease: ev.Lease, Outcome: ev.Outcome, Usage: ev.Usage}
	if ev.Response != "" {
		n.Response = conversation.ResponseKey(f.tenant, ev.Response)
	}
	r.tellNews(n)
	return r.conclude(now, now, f, ev, n.Response)
}

// conclude releases any router's lease, see finish. at is when it ended, response the key of the stored response. For a
// lease of another router it skips the policy and health, which are per router, and returns nil.
func (r *Router) conclude(now, at time.Time, f *reservation, ev *Finished, response session.Key) (ended *Ended) {
	own := f.peer.peer == 0
	ep, sent := f.ep, !r.backlog.Reader().Job(f.index).Queued
	if f.released != nil { // 1
		f.released(ev.Lease, ev.Outcome == fleet.OK)
	}
	// 2
	j := r.backlog.Close(at, f.index, ev.Outcome, ev.Usage.OutputTokens, r.speed.Reader())
	// 3
	if f.trial {
		r.health.Withdraw(ep.Slot())
	}
	if own {
		verdict := f.verdict(j.Sent, ev)
		r.health.Conclude(now, ep.Slot(), &verdict, func() health.Capable { return r.capable(now, f) })
		if ev.Refused {
			r.registry.Refused(ep)
		}
	}
	if o := ev.Outcome; f.mustLoad && !f.prefilled &&
		o != fleet.ClientGone && o != fleet.Abandoned && o != fleet.TimedOut {
		r.health.ModelLoaded(now, ep.Slot(), f.decision.Model) // without the request the load goes on
	}
	// 4
	part := f.about(ev)
	news := r.cache.Close(now, &cache.Ended{
		Lease: ev.Lease, Outcome: ev.Outcome, Usage: &part.Usage, Sent: sent, Splits: f.pool.Splits(),
		AnswerReuse: r.pools.AnswerReuse(f.pool),
	})
	r.reportKVEvents(ep, news)
	// 5
	switch {
	case ev.Outcome == fleet.OK:
		r.learn(f, &part.Usage)
		if f.path != "" {
			r.registry.Present(ep, f.path)
		}
	case ev.Absent && f.path != "":
		r.registry.Absent(now, ep, f.path)
	}
	r.speed.Ended(at, j, ev.Outcome == fleet.OK && !f.mustLoad, &ev.Usage)
	// 6
	r.storeEnded(now, f, ev)
	computed := sent && (ev.Outcome == fleet.OK || ev.Outcome == fleet.ClientGone)
	r.admission.TurnEnded(now, f.index, int64(part.Usage.PromptTokens+part.Usage.OutputTokens), computed)
	if response != (session.Key{}) {
		r.conversations.RespondKey(now, response, ep.Name(), f.leader())
	}
	r.conversations.Close(now, &f.conversation)
	r.describeShort(now, ep)
	// 7
	if own {
		e := &r.ended
		e.Request, e.Decision, e.Class, e.Routed = f.request, f.decision, f.class, f.routed
		e.Sent, e.FirstByte, e.Outcome, e.Usage = j.Sent, j.First, ev.Outcome, part.Usage
		r.explainEnd(e, f, j.Stream)
		r.open--
		ended = e
	}
	generation, index, explanation := f.generation, f.index, f.explanation
	*f = reservation{}
	f.generation, f.index, f.explanation = generation, index, explanation
	r.free = append(r.free, index)
	if ep.Gone() && r.backlog.Reader().Idle(ep.Slot()) {
		r.dropEndpoint(ep)
	}
	return ended
}

// learn corrects the pool's size estimates by the engine's counts. A split request's prompt was learnt from the prefill
// leg.
func (r *Router) learn(f *reservation, u *fleet.Usage) {
	prompt := u.PromptTokens
	if f.leg == fleet.LegDecode {
		prompt = 0
	}
	sample := size.Sample{Text: f.text, Bytes: f.promptBytes, Exact: f.exactTokens, Turn: f.class == fleet.Turn}
	r.pools.Learn(f.pool, &sample, prompt, u.OutputTokens)
}

// about is the part of a leg's end that concerns its own endpoint. A decoder's counts of prompt and cached tokens
// belong to the prefiller; the one token that a prefiller generates is no answer.
func (f *reservation) about(ev *Finished) Finished {
	part := *ev
	switch f.leg {
	case fleet.LegPrefill:
		part.Usage.OutputTokens = 0
	case fleet.LegDecode:
		part.Usage.CachedTokens, part.Usage.CachedKnown = 0, false
	case fleet.LegUnsplit:
	}
	return part
}
