package route

import (
	"errors"
	"math/bits"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cost"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/learnt"
)

// Decide chooses where a request goes and reserves its work there. If its pool has roles, or needs none, and
// Request.Splits is set, the request may be split: the plan then has two leases, each ended by exactly one Finished.
// The prefill leg gets FirstByte when its prompt is computed and Finished when its KV cache is no longer needed there;
// the decode leg gets Transferring when its decoder has been asked.
//
// With Attempt.Leg it decides only that leg of a split request again: Plan.Prefill for LegPrefill, the plan's own
// Decision for LegDecode. The errors are *UnknownIDError, *UnknownModelError, *ModelRequiredError, *KindError,
// *PinError, *NoEndpointError, *QueueFullError and, with Attempt.Again, ErrRetryBudget.
func (r *Router) Decide(now time.Time, req *fleet.Request) (p Made, err error) {
	err = r.DecideInto(now, req, &p)
	return p, err
}

// DecideInto is Decide with an empty Made to fill in: copies of more than 1 kB cost as much as some steps of a
// decision.
func (r *Router) DecideInto(now time.Time, req *fleet.Request, p *Made) error {
	// A decision has three steps, each of which needs what the one before it returns: what is asked (identify), who
	// gets it (plan, which selects endpoints, fills their rows and asks policies), and what is written down (place,
	// hold or refuse). The first two have readers only, so they cannot write.
	see, seen := r.readers, noticed{}
	q, err := see.identify(now, req, r.scratch)
	var c chosen
	if err == nil {
		c, err = see.plan(&q, &seen)
	}
	switch {
	case err != nil:
		r.refuse(&q, &seen, err)
	case c.hold != nil:
		p.Hold = r.hold(&q, c.hold)
		return nil
	default:
		r.place(&q, &seen, &c, p)
	}
	r.admission.EndHold(req.Hold)
	return err
}

// plan chooses the endpoints for the answer, for the prompt, or both, or finds that the turn is to be held, or that it
// would have to be queued and the queue is full.
func (r *readers) plan(q *asked, seen *noticed) (c chosen, err error) {
	seen.missed = r.cache.Begin(&q.lookups)
	switch q.req.Leg {
	case fleet.LegPrefill:
		err = r.choosePrefill(q, seen, &c)
	case fleet.LegDecode:
		err = r.chooseDecode(q, seen, &c)
	default:
		err = r.chooseWhole(q, seen, &c)
	}
	if err == nil && c.hold == nil {
		err = r.queueFull(q, &c)
	}
	return c, err
}

// refuse records a request that is not placed.
func (r *Router) refuse(q *asked, seen *noticed, err error) {
	var full *QueueFullError
	switch {
	case errors.Is(err, ErrRetryBudget):
		r.budget.Refuse()
	case errors.As(err, &full):
		r.queueRefused++
	}
	if q.pool.Exists() {
		r.note(q, seen)
	}
}

// place records what was found and reserves what was chosen, the prefill leg first.
func (r *Router) place(q *asked, seen *noticed, c *chosen, p *Made) {
	r.replicas.news = r.replicas.news[:0]
	said := r.note(q, seen)
	if c.compute.view != nil {
		r.commit(q, c, &c.compute, 0, &said, &p.Prefill)
	}
	if c.answer.view != nil {
		r.commit(q, c, &c.answer, p.Prefill.TTFTMs, &said, &p.Decision)
	}
	if c.compute.view == nil {
		p.View = c.answer.view
	}
	p.News = r.replicas.news
	r.budget.Enter(q.now, q.req)
}

// note records that the request was seen, whether or not it was placed. It returns what other routers are told of its
// conversation.
func (r *Router) note(q *asked, seen *noticed) (said learnt.Announcement) {
	r.arrivals.Age(q.now)
	r.pools.Keep(q.pool)
	r.panicked += uint64(bits.OnesCount8(seen.panicked))
	if r.cfg.Replicas {
		said = r.conversations.Announce(q.scope(fleet.LegUnsplit), q.req, q.who)
	}
	r.conversations.Note(q.now, q.scope(fleet.LegUnsplit), q.req, q.who)
	r.cache.Note(&q.lookups, seen.missed)
	return said
}

// commit reserves the row chosen for a leg, and lets its policy learn from the choice. The prompt of a decode leg is
// predicted to be computed in readyMs.
func (r *Router) commit(
	q *asked, chose *chosen, p *placement, readyMs float64, said *learnt.Announcement, made *Decision,
) {
	v, who, choice := p.view, p.who, p.choice.Choice
	policy := r.pools.Policy(q.pool, v.Leg)
	policy.Placed(&p.choice, q.req)
	c := p.row()
	ep := r.registry.At(c.Slot)
	r.describeChoice(q, chose, p, ep, made)
	scope := p.scope
	if r.cfg.Explain && c.Terms != (pick.Terms{}) { // the policy has filled them in
		scope = cost.ForChoice(v)
	}
	if choice.Reason == pick.ReasonWeighed {
		for i := range v.Candidates {
			fillTerms(q.req, v, i, &p.scope)
		}
	}
	if made.TTFTMs = fillTerms(q.req, v, choice.Index, &p.scope); made.TTFTMs > 0 && v.Leg == fleet.LegDecode {
		made.TTFTMs += readyMs
	}
	if q.pool.Shortlists() && v.Leg != fleet.LegDecode { // its rows are those of whole requests
		r.shortlist.See(v)
	}
	res := r.reserve(q, p, ep, readyMs, made)
	if res.released = policy.Hooks.Released; policy.Hooks.Reserved != nil {
		policy.Hooks.Reserved(res.decision.Lease, c, v, q.req)
	}
	if r.cfg.Explain {
		r.explain(q, p, res, &scope)
	}
	if q.req.Class == fleet.Turn {
		r.bind(q, v, who, res, c.Model)
		_, parent := r.conversations.Keys(q.scope(fleet.LegUnsplit), q.req, q.who)
		r.tellAdmission(q.now, res, parent)
		if counts(v, choice.Reason) {
			r.pools.Turn(q.pool, v.Leg, v.FirstTurn, v.PromptTokens-c.CachedTokens)
		}
	}
	if r.cfg.Replicas {
		r.tellPlaced(q, p, res, said)
	}
	r.decisions++
}

// describeChoice fills in what a decision says of the row chosen for a leg, but for predictions of time and the lease.
func (r *Router) describeChoice(q *asked, chose *chosen, p *placement, ep registry.Endpoint, made *Decision) {
	v, c := p.view, p.row()
	made.Endpoint, made.Kind, made.Peer = ep.Spec(), c.Kind, ep.Peer()
	made.Model, made.Adapter, made.Pool = c.Model, c.Adapter, q.pool.Name()
	made.Policy = r.pools.Policy(q.pool, v.Leg).Needs.Name
	made.Session, made.FirstTurn, made.NewID = clientsID(p.who.ID), v.FirstTurn, v.NewID
	if since := r.admission.Since(q.req.Hold); !since.IsZero() {
		made.Held = q.now.Sub(since)
	}
	made.Reason, made.Candidates, made.Full = p.choice.Reason, v.Eligible(), v.Full
	made.PromptTokens, made.CachedTokens = v.PromptTokens, c.CachedTokens
	made.Leg, made.Why, made.Weighed, made.CacheGate = v.Leg, chose.why, chose.weighed, v.CacheGate
	made.TellSession, made.Precedence, made.Passed = ep.KeepsSessions(), ep.Precedence(), chose.passed
	made.Answered, made.Lost = r.registry.Answered(ep, q.req.Path)
	made.Away = r.readers.elsewhere(q, ep, c.Context)
	if v.Leg == fleet.LegPrefill {
		made.Handover = ep.Handover()
	}
	if made.Model == "" || q.req.Model == "" {
		made.Model = q.req.Model
	}
}

// counts reports whether a turn counts among those that its pool's policy places: there was a choice, and it was the
// policy's.
func counts(v *pick.View, why pick.Reason) bool { return v.Eligible() > 1 && why != pick.ReasonWeighed }
