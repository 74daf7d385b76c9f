package route

import (
	"iter"
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
	tenantNumber             uint8  // the tenant by number, see session.Owned
	path                     string // see Request.Path
	mustLoad                 bool   // its model was not in memory when it was placed, and it needs it
	conversation             conversation.Ref
	caller                   uint64      // see Request.Caller
	sample                   size.Sample // of its prompt
	window                   int         // see Request.Window
	decision                 Decision

	peer     peerLease                          // lease at the router that placed it; zero for this one
	released func(l fleet.Lease, answered bool) // hook of the policy that placed it, or nil
	// its conversation counts as active at the endpoint, see arrivals
	countsActive bool
	index        uint32      // its place in Router.reservations and in the rooms' tables by lease
	explanation  explanation // see explain
}

// reserve takes a lease and records the placement in the rooms: health, backlog, arrivals, cache.
func (r *Router) reserve(q *asked, p *placement, ep registry.Endpoint, readyMs float64, made *Decision) *reservation {
	now, req, v := q.now, q.req, p.view
	res := r.newReservation()
	res.ep, res.pool, res.class, res.routed = ep, q.pool, req.Class, now
	res.request, res.tenant, res.session, res.caller = req.ID, req.Tenant, made.Session, req.Caller
	res.tenantNumber, res.path, res.decision.Model = uint8(tenantHash(req.Tenant)), req.Path, made.Model
	res.sample = size.Sample{Bytes: req.PromptBytes, Exact: q.size.Exact, Turn: req.Class == fleet.Turn}
	res.window, res.retry = req.Window, len(tried(req, made.Leg)) > 0
	if req.Content != nil && len(req.Content.List) == 0 { // of several prompts some engines count the first alone
		res.sample.Text = req.Content.Text
	}
	r.replicas.seq++
	w := r.readers.work(q, p, ep)
	w.TTFTMs, w.ReadyMs, w.SharedTokens = made.TTFTMs, readyMs, v.Shared(p.row())
	w.Origin, w.Seq = r.replicas.self, r.replicas.seq
	res.trial = r.health.Admit(ep.Slot())
	r.health.AdmitService(now, ep.Slot(), res.service())
	r.registry.Placed(ep)
	job := r.enter(now, now, res, w)
	made.Queued, made.AtLimit, made.Greedy = job.Queued, job.AtLimit, job.Greedy
	prompt := r.readers.prompt(q, v.Leg, p.who)
	r.cache.Open(res.index, v, p.choice.Index, &q.lookups, &prompt)
	made.Lease = res.lease()
	res.decision = *made
	return res
}

// enter enters a request of any router into the accounts of its endpoint. at is when it was placed.
func (r *Router) enter(now, at time.Time, res *reservation, w backlog.Work) *backlog.Job {
	r.worked = true
	r.noteModelLoad(now, res)
	job := r.backlog.Open(at, res.index, w)
	if !job.Queued {
		r.sent(now, at, res)
	}
	if res.class == fleet.Turn {
		r.arrivals.Turn(now, res.ep.Slot())
		if !res.mustLoad {
			r.speed.Entered(now, job)
		}
	}
	r.tellShortlist(now, res.ep)
	return job
}

// sent records that a request of any router is sent to its engine. at is when that is.
func (r *Router) sent(now, at time.Time, res *reservation) {
	if took := r.backlog.Send(at, res.index); took > 0 {
		r.arrivals.Spend(now, res.ep.Slot(), took)
	}
}

// work is the work of a placement, as far as it tells whether the request is queued. A request that tests its endpoint
// is not.
func (r *readers) work(q *asked, p *placement, ep registry.Endpoint) backlog.Work {
	req, v, c := q.req, p.view, p.row()
	return backlog.Work{
		Slot: ep.Slot(), Class: req.Class, Leg: v.Leg, Stream: req.Stream || v.Leg == fleet.LegPrefill,
		PromptTokens: v.PromptTokens, CachedTokens: c.CachedTokens, OutputTokens: v.OutputTokens,
		FarTokens: c.Far, FetchTokens: int(c.Fetching(c.Far)), MaxTokens: req.MaxTokens,
		WaitMs: c.WaitMs - c.Link.WaitMs, MsPerToken: v.PerToken(c),
		MayQueue: !r.health.Tests(ep.Slot()) && mayQueue(req, v.Leg, ep), Asker: q.asker,
	}
}

// noteModelLoad notes whether a request waits for its model to be loaded.
func (r *Router) noteModelLoad(now time.Time, res *reservation) {
	if res.class == fleet.Auxiliary {
		return
	}
	slot, model := res.ep.Slot(), res.decision.Model
	res.mustLoad = res.ep.MustLoad(now, r.readers.staleAfter, model, res.window) ||
		r.health.LoadsModel(now, slot, model)
	if r.registry.LoadOnDemand() && res.own() { // other routers do not tell it
		r.registry.ModelAsked(now, res.ep, model, res.window)
	}
	if res.mustLoad {
		r.health.LoadingModel(now, slot, model)
	}
}

func (res *reservation) own() bool { return res.peer.peer == 0 }

// lease is the name by which callers end the reservation.
func (res *reservation) lease() fleet.Lease {
	return fleet.Lease(res.generation)<<32 | fleet.Lease(res.index)
}

func (r *Router) newReservation() *reservation {
	n := len(r.free)
	if n == 0 {
		r.reservations = append(r.reservations, reservation{
			generation: 1, open: true, index: uint32(len(r.reservations)),
		})
		return &r.reservations[len(r.reservations)-1]
	}
	res := &r.reservations[r.free[n-1]]
	r.free = r.free[:n-1]
	res.generation = res.generation%math.MaxInt32 + 1 // leases stay below those of held turns
	res.open = true
	return res
}

// reservation is the reservation of a lease; nil when it is not open or belongs to another router.
func (r *Router) reservation(l fleet.Lease) *reservation {
	i := uint32(l)
	if int(i) >= len(r.reservations) {
		return nil
	}
	res := &r.reservations[i]
	if !res.open || res.generation != uint32(l>>32) || !res.own() {
		return nil
	}
	return res
}

// running goes through the open reservations of this router's own requests.
func (r *Router) running() iter.Seq[*reservation] {
	return func(yield func(*reservation) bool) {
		for i := range r.reservations {
			if res := &r.reservations[i]; res.open && res.own() && !yield(res) {
				return
			}
		}
	}
}

// firstByte records that a prompt has been computed: backlog, health, speed, the queue at the new speed, cache,
// conversation.
func (r *Router) firstByte(now time.Time, l fleet.Lease) {
	res := r.reservation(l)
	if res == nil || res.prefilled || r.backlog.Job(res.index).Queued {
		return
	}
	r.tellNews(News{Kind: NewsFirstByte, Lease: l})
	r.computed(now, now, res)
}

// computed records that the prompt of any router's lease was computed. at is when it happened.
func (r *Router) computed(now, at time.Time, res *reservation) {
	res.prefilled = true
	j := r.backlog.Computed(at, res.index)
	if res.own() && res.service() != "" {
		r.health.ServiceAlive(res.ep.Slot(), res.service(), now)
		if res.class != fleet.Turn {
			r.health.Took(res.ep.Slot(), res.service(), now.Sub(j.Sent))
		}
	}
	if res.own() && res.class != fleet.Auxiliary {
		r.health.Alive(res.ep.Slot(), now)
		r.health.Begun(res.ep.Slot(), j.Sent)
	}
	if res.trial { // it computes again; its stream may last for hours
		res.trial = false
		r.health.Withdraw(res.ep.Slot())
		r.health.Recovered(now, res.ep.Slot())
	}
	if res.mustLoad { // its time is that of loading
		r.registry.ModelLoaded(res.ep, at.Sub(j.Sent))
		r.health.ModelLoaded(now, res.ep.Slot(), res.decision.Model)
	} else {
		r.speed.Computed(at, j)
	}
	if j.Timed {
		r.backlog.Rebase(at, j.Slot)
	}
	r.cache.Computed(now, res.index)
	r.misses.Computed(&res.explanation.miss)
	r.storeComputed(now, res)
	r.tellShortlist(now, res.ep)
}

// overfilled takes in that an engine failed a request since those that it had did not fit in its memory together.
func (r *Router) overfilled(at time.Time, res *reservation) {
	if r.registry.Overfilled(res.ep) {
		r.tellSizes(res.ep)
		r.health.Say(res.ep.Slot(), sharedContext)
	}
	r.backlog.Overfilled(at, res.index)
}

// What is said of an endpoint once.
const (
	sharedContext = "it failed all of its requests since they did not fit in its memory together" + waitHere
	emptiedSlots  = "its slots are emptied for each other" + waitHere
	waitHere      = ": its slots share one context (llama-server without --parallel, or with --kv-unified). " +
		"From now on requests wait here until they fit"
)

// conclude releases any router's lease; each room then takes in the result of its request. at is when it ended,
// response the key of the stored response. For a lease of another router it skips the policy and health, which are per
// router, and returns nil. The order of the steps is a contract:
//
//  1. the policy's own accounts;
//  2. backlog: from here on load, queue and link exclude the request;
//  3. health: which side is to blame. Steps 1 to 3 read no cached tokens;
//  4. cache: compares prediction and report, which may show a lost cache and begin a new epoch;
//  5. size and speed learn: after 2, since they count the remaining requests; the registry learns which paths it has;
//  6. conversation and arrivals: after 4, since they store the epoch;
//  7. the record of the request for listeners.
func (r *Router) conclude(now, at time.Time, res *reservation, ev *Finished, response session.Key) (ended *Ended) {
	ep, sent := res.ep, !r.backlog.Job(res.index).Queued
	if res.released != nil { // 1
		res.released(ev.Lease, ev.Outcome == fleet.OK)
	}
	if res.own() && ev.Overfull {
		r.overfilled(at, res)
	}
	// 2
	j := r.backlog.Close(at, res.index, ev.Outcome, ev.Usage.OutputTokens)
	r.judge(now, res, ev, j.Sent) // 3
	// 4
	part := res.about(ev)
	news := r.cache.Close(now, &cache.Ended{
		Lease: ev.Lease, Outcome: ev.Outcome, Usage: &part.Usage, Sent: sent, Splits: res.pool.Splits(),
		AnswerReuse: r.pools.AnswerReuse(res.pool),
	})
	r.reportKVEvents(ep, news)
	r.learn(now, at, res, ev, j, &part.Usage) // 5
	// 6
	r.storeEnded(now, res, ev)
	computed := sent && (ev.Outcome == fleet.OK || ev.Outcome == fleet.ClientGone)
	r.admission.TurnEnded(now, res.index, int64(part.Usage.PromptTokens+part.Usage.OutputTokens), computed)
	if response != (session.Key{}) {
		r.respond(now, response, res, &ev.Usage)
	}
	r.conversations.Close(now, &res.conversation)
	r.tellShortlist(now, ep)
	if res.own() { // 7
		ended = r.record(res, &part, j)
	}
	// a later request uses it, and the memory of its explanation
	*res = reservation{generation: res.generation, index: res.index, explanation: res.explanation}
	r.free = append(r.free, res.index)
	if ep.Gone() && r.backlog.Idle(ep.Slot()) {
		r.dropEndpoint(ep)
	}
	return ended
}

// judge has health judge the endpoint by how an attempt ended that was sent at a time.
func (r *Router) judge(now time.Time, res *reservation, ev *Finished, sent time.Time) {
	ep := res.ep
	if res.trial {
		r.health.Withdraw(ep.Slot())
	}
	if res.own() {
		r.health.Conclude(now, ep.Slot(), &health.Verdict{
			// counting tokens works on an engine that has stopped computing
			Outcome: ev.Outcome, Excused: ev.Excused || ev.Overfull, Computes: res.class != fleet.Auxiliary,
			Trial: res.trial, Sent: sent, RetryAfter: ev.RetryAfter, Limited: ev.Limited, Caller: res.caller,
		}, func() health.Census { return r.capable(now, res) })
		if ev.Refused {
			r.registry.Refused(ep)
		}
	}
	if o := ev.Outcome; res.mustLoad && !res.prefilled &&
		o != fleet.ClientGone && o != fleet.Abandoned && o != fleet.TimedOut {
		r.health.ModelLoaded(now, ep.Slot(), res.decision.Model) // without the request the load goes on
	}
}

// capable counts the endpoints of a reservation's pool that can do the same work. Its own pool has old members if it
// was dropped meanwhile.
func (r *Router) capable(now time.Time, res *reservation) health.Census {
	p, of := health.Census{All: 1}, r.pools.Named(res.pool.Name())
	for i := range of.Len() {
		e := of.Member(i).Endpoint()
		if e == res.ep || !e.Role().Takes(res.decision.Leg) || r.readers.usable(now, e, 0) == health.Unfit {
			continue
		}
		p.All++
		if r.health.IsEjected(now, e.Slot()) {
			p.Ejected++
		}
	}
	return p
}

// learn has size, the registry and speed learn from how an attempt ended. usage is what of its counts is about its own
// endpoint.
func (r *Router) learn(now, at time.Time, res *reservation, ev *Finished, j *backlog.Job, usage *fleet.Usage) {
	switch {
	case ev.Outcome == fleet.OK:
		prompt := usage.PromptTokens
		if res.decision.Leg == fleet.LegDecode { // whose prompt was learnt from the prefill leg
			prompt = 0
		}
		r.pools.Learn(res.pool, &res.sample, prompt, usage.OutputTokens)
		if res.path != "" {
			r.registry.Present(res.ep, res.path)
		}
	case ev.Absent && res.path != "":
		r.registry.Absent(now, res.ep, res.path)
	}
	r.speed.Ended(at, j, ev.Outcome == fleet.OK && !res.mustLoad, &ev.Usage)
}

// record is what listeners get of an attempt that ended so. The reservation gives its explanation away, and gets the
// memory of the previous one.
func (r *Router) record(res *reservation, end *Finished, j *backlog.Job) *Ended {
	e, x := &r.ended, &res.explanation
	free := explanation{candidates: e.Candidates[:0], parts: e.Costs[:0]}
	e.Request, e.Decision, e.Class, e.Routed = res.request, res.decision, res.class, res.routed
	e.Sent, e.FirstByte, e.Outcome, e.Usage = j.Sent, j.First, end.Outcome, end.Usage
	e.Stream, e.Home, e.Candidates, e.Costs, e.Scope = j.Stream, x.home, x.candidates, x.parts, x.scope
	if e.Miss = (fleet.Miss{}); r.cfg.Explain {
		e.Miss = x.miss.Corrected(&e.Usage, res.decision.CachedTokens, r.cache.Epoch(res.ep.Slot()))
	}
	*x = free
	return e
}

// about is the part of a leg's end that concerns its own endpoint. A decoder's counts of prompt and cached tokens
// belong to the prefiller; the one token that a prefiller generates is no answer.
func (res *reservation) about(ev *Finished) Finished {
	part := *ev
	switch res.decision.Leg {
	case fleet.LegPrefill:
		part.Usage.OutputTokens = 0
	case fleet.LegDecode:
		part.Usage.CachedTokens, part.Usage.CachedKnown = 0, false
	case fleet.LegUnsplit:
	}
	return part
}
