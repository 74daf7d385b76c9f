package route

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/size"
)

// decision is one request while it is decided. It is handed from step to step; nothing of it is read after the call, but its
// memory is used again.
type decision struct {
	now     time.Time
	req     *fleet.Request
	pool    *pool       // who serves the model, and its policies
	who     talk        // the conversation, on the side that answers
	whoFill talk        // the same on the side that computes prompts
	newID   bool        // see fleet.Request and Decision.NewID
	size    size.Prompt // tokens, and where each block ends
	why     SplitWhy    // why it is split or not, as far as that is known
	open    bool        // only the candidates can tell whether it is split
	weighed Weighed
	decodes bool    // the candidates for the answer are those of a decode leg, not of a whole request
	ready   float64 // ms until the prompt is predicted to be computed elsewhere, of a decode leg

	text    promptText // who holds how much of the prompt
	prefill table      // one table a leg; empty where the leg is not considered
	whole   table
	decode  table

	members []*member // scratch of admit
	pcg     *rand.PCG // one generator for all legs
	rng     *rand.Rand
}

// table is the endpoints that may take one leg, and what is known of them: View has a row for each.
type table struct {
	pick.View
	sure bool // its rows' CachedTokens leave out what decode legs are still to bring, see onlyPresent
}

// reset makes the value that the next decision begins with.
func (d *decision) reset(now time.Time, req *fleet.Request) *decision {
	d.now, d.req, d.pool = now, req, nil
	d.who, d.whoFill, d.newID, d.size = talk{}, talk{}, false, size.Prompt{}
	d.why, d.open, d.weighed, d.decodes, d.ready = "", false, Weighed{}, req.Leg == fleet.LegDecode, 0
	d.prefill.reset(fleet.LegPrefill)
	d.whole.reset(fleet.LegWhole)
	d.decode.reset(fleet.LegDecode)
	return d
}

func (t *table) reset(l fleet.Leg) {
	*t = table{View: pick.View{Leg: l, Home: -1, Parent: -1, Candidates: t.Candidates[:0]}}
}

// Decide decides where a request goes and reserves its work there. Where endpoints have roles, or need none, and the request's
// Splits says that its door can, it may go to two of them: the plan then holds two leases, each to be ended by exactly one
// Finished. That of the prefill leg is told FirstByte when the prompt is computed and Finished when its KV cache is no longer
// needed there; that of the decode leg Transferring when the decoder is asked.
//
// With Request.Leg only that leg of a request that was split before is decided, again: Plan.Prefill with LegPrefill, the plan's
// own Decision with LegDecode. The errors are *UnknownModelError, *ModelRequiredError, *PinError, *NoEndpointError and,
// with Request.Again, ErrRetryBudget.
func (r *Router) Decide(now time.Time, req *fleet.Request) (Plan, error) {
	if !r.retries.allow(now, req) {
		return Plan{}, ErrRetryBudget
	}
	p, err := r.plan(r.pad.reset(now, req))
	if err == nil {
		r.retries.enter(now, req)
	}
	return p, err
}

// plan decides a request that the retry budget has room for.
func (r *Router) plan(d *decision) (Plan, error) {
	if err := r.identify(d); err != nil {
		return Plan{}, err
	}
	switch d.req.Leg {
	case fleet.LegPrefill:
		return r.decidePrefill(d)
	case fleet.LegDecode:
		return r.decideDecode(d)
	default:
		return r.decideWhole(d)
	}
}

// identify finds who serves the request, whose conversation it is, how long its prompt is, and whether it may be split.
func (r *Router) identify(d *decision) (err error) {
	if d.pool, err = r.poolFor(d.req); err != nil {
		return err
	}
	d.who = r.recall(d.now, d.pool, d.req)
	d.size = d.pool.measure(d.req, &d.who)
	d.newID = r.newID(d.pool, d.req, &d.who)
	return nil
}

// decideWhole decides a request of which no leg is under way yet.
func (r *Router) decideWhole(d *decision) (Plan, error) {
	p, rules := d.pool, &r.cfg.Disaggregation
	d.why, d.open = r.mayPart(p, d.req, d.size.Tokens)
	if d.why.Splits() || d.open {
		switch err := r.fillPrefill(d); {
		case err == nil:
		case rules.NoFallback && rules.When != WhenFree || p.bound() && !p.alone():
			return Plan{}, err
		default:
			d.why, d.open = WholeNoPrefiller, false
		}
	}
	d.decodes = d.why.Splits() && p.bound()
	if err := r.fill(d, &d.whole, &d.who); err != nil {
		return Plan{}, err
	}
	if len(d.prefill.Candidates) > 0 && d.whole.Forced == pick.ReasonHolder {
		d.why, d.open = WholePinned, false
	}
	choice, picked := pick.Choice{}, false
	switch {
	case !d.open:
	case rules.When == WhenUncached:
		choice, picked = r.choose(d, &d.whole), true
		d.why = r.uncached(&d.whole, choice.Index)
	case rules.When == WhenFree:
		d.why, d.weighed, choice = r.weighFree(d)
		picked = true
	default:
		d.why, d.weighed = r.weigh(d)
	}
	if d.why.Splits() {
		return r.split(d, choice, picked)
	}
	if p.parts && (!picked || choice.Reason == pick.ReasonWeighed) {
		r.onlyPresent(d, &d.whole)
	}
	if !picked {
		choice = r.choose(d, &d.whole)
	}
	return Plan{Decision: r.commit(d, &d.whole, &d.who, choice), View: &d.whole.View}, nil
}

// split places both legs, the answer first.
func (r *Router) split(d *decision, answer pick.Choice, picked bool) (Plan, error) {
	r.fillDecode(d)
	if !picked {
		d.decode.Forced = ""
		answer = r.choose(d, &d.decode)
	}
	decoder := &d.decode.Candidates[answer.Index]
	d.prefill.narrow(func(c *pick.Candidate) bool {
		return c.Name != decoder.Name && c.Model == decoder.Model && c.Kind == decoder.Kind
	})
	if len(d.prefill.Candidates) == 0 { // the only one that could compute the prompt is to decode it
		for i := range d.whole.Candidates {
			d.whole.Candidates[i].Terms = pick.Terms{}
		}
		d.why = WholeNoPrefiller
		return Plan{Decision: r.commit(d, &d.whole, &d.who, answer), View: &d.whole.View}, nil
	}
	settle(&d.prefill, &d.whoFill)
	plan := Plan{Prefill: r.commit(d, &d.prefill, &d.whoFill, r.choose(d, &d.prefill))}
	d.ready = plan.Prefill.TTFTMs
	plan.Decision = r.commit(d, &d.decode, &d.who, answer)
	return plan, nil
}

// decidePrefill finds another endpoint to compute the prompt of a request whose decoder stays.
func (r *Router) decidePrefill(d *decision) (Plan, error) {
	if err := r.fillPrefill(d); err != nil {
		return Plan{}, err
	}
	if ep := r.byName[d.req.Decoder]; ep != nil {
		model := ""
		for i := range d.pool.members {
			if d.pool.members[i].ep == ep {
				model = d.pool.members[i].model
			}
		}
		d.prefill.narrow(func(c *pick.Candidate) bool {
			return c.Slot != ep.slot && c.Kind == ep.kind() && c.Model == model
		})
	}
	if len(d.prefill.Candidates) == 0 {
		return Plan{}, r.noEndpoint(d, fleet.LegPrefill)
	}
	settle(&d.prefill, &d.whoFill)
	return Plan{Prefill: r.commit(d, &d.prefill, &d.whoFill, r.choose(d, &d.prefill))}, nil
}

// decideDecode finds another endpoint to answer from what the prefiller has computed.
func (r *Router) decideDecode(d *decision) (Plan, error) {
	if err := r.fill(d, &d.whole, &d.who); err != nil {
		return Plan{}, err
	}
	d.whole.narrow(func(c *pick.Candidate) bool { return c.Name != d.req.Prefiller })
	if len(d.whole.Candidates) == 0 {
		return Plan{}, r.noEndpoint(d, fleet.LegWhole)
	}
	settle(&d.whole, &d.who)
	r.fillDecode(d)
	if d.decode.Forced == pick.ReasonHolder {
		d.decode.Forced = ""
	}
	d.why = SplitKept
	return Plan{Decision: r.commit(d, &d.decode, &d.who, r.choose(d, &d.decode)), View: &d.decode.View}, nil
}

// fillPrefill fills the table of the endpoints that could compute the prompt.
func (r *Router) fillPrefill(d *decision) error {
	d.whoFill = r.recallPrefill(d)
	err := r.fill(d, &d.prefill, &d.whoFill)
	if d.prefill.Forced == pick.ReasonHolder {
		d.prefill.Forced = ""
	}
	return err
}

// fill fills a table with the endpoints that may take a leg of the request, and what is known of them.
func (r *Router) fill(d *decision, v *table, t *talk) error {
	if err := r.admit(d, v, t); err != nil {
		return err
	}
	v.Now, v.PromptTokens, v.OutputTokens = d.now, d.size.Tokens, d.pool.size.Answer(d.req)
	if v.Leg == fleet.LegPrefill {
		v.OutputTokens = 1
	}
	v.FirstTurn = d.req.Class == fleet.Turn && (!t.known || t.entry.Turns == 1 && len(tried(d.req, v.Leg)) > 0) // a retry is still the same turn
	v.NewID = d.newID
	settle(v, t)
	v.Repeats = t.repeats
	v.Hash = placeHash(d.req, t.id)
	d.pcg.Seed(d.req.Seed, 0x9e3779b97f4a7c15+uint64(v.Leg))
	v.Rand = d.rng
	r.predict(d, v, t)
	r.count(d, v)
	r.expect(d.now, &v.View)
	if r.awaiting && len(v.Candidates) > 1 {
		r.arrivals.ExpectReturns(&v.View, t.entry.Endpoint, t.entry.Rest)
	}
	return nil
}

// fillDecode makes the table of the decode leg from that of whole requests: what is not cached at an endpoint is not computed there
// but moved to it, and until it can be moved what waits there now goes on.
func (r *Router) fillDecode(d *decision) {
	v, first := d.startDecode(), d.prefillMs()
	for i := range v.Candidates {
		c := &v.Candidates[i]
		ep := r.bySlot[c.Slot]
		pace := r.transferOf(d.now, ep)
		wait := r.legWaitMs(d.now, &d.whole.Candidates[i])
		c.LinkMs = r.besides(d.now, ep, pace, float64(v.PromptTokens-c.CachedTokens), first)
		c.MsPerToken, c.FixedMs = pace.perToken, pace.fixed
		c.WaitMs = max(0, wait-first) + c.LinkMs
		c.DelayMs = c.LinkMs
	}
}

// startDecode is the table of the decode leg with the rows of whole requests. Rows that have been priced as decode legs keep their terms.
func (d *decision) startDecode() *table {
	v := &d.decode
	priced := len(v.Candidates) > 0
	rows := v.Candidates
	v.View = d.whole.View
	v.Leg, v.Candidates = fleet.LegDecode, rows[:0]
	for i := range d.whole.Candidates {
		c := d.whole.Candidates[i]
		if priced {
			c.Terms = rows[i].Terms
		}
		v.Candidates = append(v.Candidates, c)
	}
	return v
}

// prefillMs is how soon the best of the prefill side is predicted to have computed the prompt; 0 where it is computed.
func (d *decision) prefillMs() float64 {
	best := -1.0
	for i := range d.prefill.Candidates {
		c := &d.prefill.Candidates[i]
		if ms := c.WaitMs + c.FixedMs + float64(float64(d.prefill.PromptTokens-c.CachedTokens)*c.MsPerToken); best < 0 || ms < best {
			best = ms
		}
	}
	return max(best, 0)
}

// settle finds the conversation's own endpoints among the rows.
func settle(v *table, t *talk) {
	v.Home, v.Parent = row(v, t.entry.Endpoint), row(v, t.parent)
	if !t.known {
		v.Home = row(v, t.hint)
	}
}

// row is the index of an endpoint's row, -1 when it has none or name is "".
func row(v *table, name string) int {
	for i := range v.Candidates {
		if name != "" && v.Candidates[i].Name == name {
			return i
		}
	}
	return -1
}

// narrow drops the rows for which ok is false, all of them if need be.
func (t *table) narrow(ok func(c *pick.Candidate) bool) {
	n := 0
	for i := range t.Candidates {
		if ok(&t.Candidates[i]) {
			t.Candidates[n] = t.Candidates[i]
			n++
		}
	}
	t.Candidates = t.Candidates[:n]
}

// choose asks the leg's policy, where there is a choice.
func (r *Router) choose(d *decision, v *table) pick.Choice {
	policy := d.pool.policyFor(v.Leg)
	switch {
	case v.Forced != "":
		return pick.Choice{Index: 0, Reason: v.Forced}
	case len(v.Candidates) == 1:
		if _, keeps := policy.(pick.Keeping); keeps {
			policy.Pick(&v.View, d.req) // it notes where the conversation is now
		}
		if v.Home == 0 {
			return pick.Choice{Index: 0, Reason: pick.ReasonSession}
		}
		return pick.Choice{Index: 0, Reason: pick.ReasonOnly}
	}
	return policy.Pick(&v.View, d.req)
}

// commit reserves what was chosen. It is the step that writes.
func (r *Router) commit(d *decision, v *table, t *talk, choice pick.Choice) Decision {
	if v.Leg == fleet.LegDecode {
		for i := range v.Candidates { // what a policy reckons as prefill is the transfer, of a decode leg
			terms := &v.Candidates[i].Terms
			terms.Transfer, terms.Prefill = terms.Prefill, 0
		}
	}
	c := &v.Candidates[choice.Index]
	ep := r.bySlot[c.Slot]
	made := Decision{
		Endpoint: ep.spec, Kind: ep.kind(), Model: c.Model, Pool: d.pool.name, Policy: r.policyName(d.pool, v.Leg),
		Session: t.id, FirstTurn: v.FirstTurn, NewID: v.NewID, Reason: choice.Reason, Candidates: len(v.Candidates),
		PromptTokens: v.PromptTokens, CachedTokens: c.CachedTokens, Leg: v.Leg, Why: d.why, Weighed: d.weighed,
	}
	if v.Leg == fleet.LegPrefill {
		made.Handover = ep.report.Handover
	}
	if made.Model == "" || d.req.Model == "" {
		made.Model = d.req.Model
	}
	if made.TTFTMs = reckoned(d.req, &v.View, choice.Index); made.TTFTMs > 0 && v.Leg == fleet.LegDecode {
		made.TTFTMs += d.ready
	}
	made.Peer = ep.peer()
	made.Lease = r.reserve(d, v, ep, &made, choice.Index)
	f := r.flight(made.Lease)
	f.recent = ep.recent(t)
	if f.goesOn(t); f.base > 0 {
		f.since = r.since(ep, t)
	}
	r.tellReserved(d.req, v, made.Lease, choice.Index)
	r.tell(d.req, v, made.Lease, t, choice.Index)
	if d.req.Class == fleet.Turn {
		r.bind(d.now, d.pool, d.req, *t, ep, &made, c.Model)
	}
	r.decisions++
	return made
}

// policyName is the configured name of the policy that places the leg.
func (r *Router) policyName(p *pool, l fleet.Leg) string {
	switch {
	case !p.parts:
		return r.cfg.PolicyName
	case l == fleet.LegPrefill:
		return r.cfg.Disaggregation.PrefillName
	default:
		return r.cfg.Disaggregation.DecodeName
	}
}

// tried is the endpoints that failed the request on that side.
func tried(req *fleet.Request, l fleet.Leg) []string {
	if l == fleet.LegPrefill {
		return req.TriedPrefill
	}
	return req.Tried
}

// recallPrefill is what is remembered of the conversation on the prefill side, where it has a home of its own.
func (r *Router) recallPrefill(d *decision) talk {
	t, p := &d.who, d.pool
	apart := talk{id: t.id, minted: t.minted, repeats: t.repeats}
	if apart.id == "" {
		return apart
	}
	if apart.entry, apart.known = r.sessions.Get(d.now, d.req.Tenant, p.prefillName, t.id); apart.known {
		return apart
	}
	if apart.entry, apart.known = r.newborn.Get(d.now, d.req.Tenant, p.prefillName, t.id); apart.known {
		apart.newborn = !t.minted
	}
	return apart
}

// hasRoles reports whether one of the members says what it is there for: only then is anything split.
func hasRoles(members []member) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.ep.spec.Role != fleet.RoleBoth })
}
