package route

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/size"
)

// decision is one request while it is decided. It is handed from step to step; nothing of it is read after the call, but its
// memory is used again.
type decision struct {
	now     time.Time
	req     *fleet.Request
	pool    *pool              // who serves the model, and its policies
	who     conversation.Found // the conversation, on the side that answers
	whoFill conversation.Found // the same on the side that computes prompts
	size    size.Prompt        // tokens, and where each block ends
	why     SplitWhy           // why it is split or not, as far as that is known
	open    bool               // only the candidates can tell whether it is split
	weighed Weighed
	decodes bool    // the candidates for the answer are those of a decode leg, not of a whole request
	ready   float64 // ms until the prompt is predicted to be computed elsewhere, of a decode leg

	text    cache.Text // who holds how much of the prompt
	prefill pick.View  // a view for each leg; empty where the leg is not considered
	whole   pick.View
	decode  pick.View

	answer  placement // what was chosen for the answer, or for all of the request
	compute placement // what was chosen for the prefill leg

	panicked uint64    // tables for which so few endpoints are left that ejections for failed requests were ignored
	members  []*member // scratch of admit
	pcg      *rand.PCG // one generator for all legs
	rng      *rand.Rand
}

// placement is a leg's chosen row.
type placement struct {
	view   *pick.View // nil where the leg is not placed
	who    *conversation.Found
	choice pick.Choice
}

// reset makes the value that the next decision begins with.
func (d *decision) reset(now time.Time, req *fleet.Request) *decision {
	d.now, d.req, d.pool = now, req, nil
	d.who, d.whoFill, d.size = conversation.Found{}, conversation.Found{}, size.Prompt{}
	d.why, d.open, d.weighed, d.decodes, d.ready = "", false, Weighed{}, req.Leg == fleet.LegDecode, 0
	blank(&d.prefill, fleet.LegPrefill)
	blank(&d.whole, fleet.LegWhole)
	blank(&d.decode, fleet.LegDecode)
	d.answer, d.compute, d.panicked = placement{}, placement{}, 0
	return d
}

// blank empties a view and keeps the memory of its rows.
func blank(v *pick.View, l fleet.Leg) {
	*v = pick.View{Leg: l, Home: -1, Parent: -1, Candidates: v.Candidates[:0]}
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
	if !r.budget.Reader().Allows(now, req) {
		r.budget.Refuse()
		return Plan{}, ErrRetryBudget
	}
	p, err := r.plan(r.pad.reset(now, req))
	if err == nil {
		r.budget.Enter(now, req)
	}
	return p, err
}

// plan decides a request that the retry budget has room for: it finds out what it needs to know, chooses, and then, in the one step that
// writes, places the request.
func (r *Router) plan(d *decision) (Plan, error) {
	if err := r.identify(d); err != nil {
		return Plan{}, err
	}
	r.cache.Reader().Begin(&d.text)
	var err error
	switch d.req.Leg {
	case fleet.LegPrefill:
		err = r.choosePrefill(d)
	case fleet.LegDecode:
		err = r.chooseDecode(d)
	default:
		err = r.chooseWhole(d)
	}
	if err != nil {
		r.note(d)
		return Plan{}, err
	}
	return r.place(d), nil
}

// place notes what was found out and reserves what was chosen, the prefill leg first.
func (r *Router) place(d *decision) Plan {
	r.note(d)
	plan := Plan{}
	if d.compute.view != nil {
		plan.Prefill = r.commit(d, &d.compute)
		d.ready = plan.Prefill.TTFTMs
	}
	if d.answer.view != nil {
		plan.Decision = r.commit(d, &d.answer)
	}
	if d.compute.view == nil {
		plan.View = d.answer.view
	}
	return plan
}

// note remembers that the request was seen, whether or not it was placed.
func (r *Router) note(d *decision) {
	r.keepPool(d.pool)
	r.panicked += d.panicked
	r.conversations.Note(d.now, d.scope(fleet.LegWhole), d.req, &d.who)
	r.cache.Note(&d.text)
}

// identify finds who serves the request, whose conversation it is, how long its prompt is, and whether it may be split.
func (r *Router) identify(d *decision) (err error) {
	if d.pool, err = r.poolFor(d.req); err != nil {
		return err
	}
	d.who = r.conversations.Reader().Find(d.now, d.scope(fleet.LegWhole), d.req)
	d.size = d.pool.measure(d.req, &d.who)
	return nil
}

// chooseWhole chooses for a request of which no leg is under way yet.
func (r *Router) chooseWhole(d *decision) error {
	p, rules := d.pool, &r.cfg.Disaggregation
	d.why, d.open = r.mayPart(p, d.req, d.size.Tokens)
	if d.why.Splits() || d.open {
		switch err := r.fillPrefill(d); {
		case err == nil:
		case rules.NoFallback && rules.When != WhenFree || p.bound() && !p.alone():
			return err
		default:
			d.why, d.open = WholeNoPrefiller, false
		}
	}
	d.decodes = d.why.Splits() && p.bound()
	if err := r.fill(d, &d.whole, &d.who); err != nil {
		return err
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
		r.split(d, choice, picked)
		return nil
	}
	if p.parts && (!picked || choice.Reason == pick.ReasonWeighed) {
		cache.OnlyPresent(&d.whole, &d.text)
	}
	if !picked {
		choice = r.choose(d, &d.whole)
	}
	d.answer = placement{&d.whole, &d.who, choice}
	return nil
}

// split chooses for both legs, the answer first.
func (r *Router) split(d *decision, answer pick.Choice, picked bool) {
	r.fillDecode(d)
	if !picked {
		d.decode.Forced = ""
		answer = r.choose(d, &d.decode)
	}
	decoder := &d.decode.Candidates[answer.Index]
	narrow(&d.prefill, func(c *pick.Candidate) bool {
		return c.Name != decoder.Name && c.Model == decoder.Model && c.Kind == decoder.Kind
	})
	if len(d.prefill.Candidates) == 0 { // the only one that could compute the prompt is to decode it
		for i := range d.whole.Candidates {
			d.whole.Candidates[i].Terms = pick.Terms{}
		}
		d.why = WholeNoPrefiller
		d.answer = placement{&d.whole, &d.who, answer}
		return
	}
	settle(&d.prefill, &d.whoFill)
	d.compute = placement{&d.prefill, &d.whoFill, r.choose(d, &d.prefill)}
	d.answer = placement{&d.decode, &d.who, answer}
}

// choosePrefill chooses another endpoint to compute the prompt of a request whose decoder stays.
func (r *Router) choosePrefill(d *decision) error {
	if err := r.fillPrefill(d); err != nil {
		return err
	}
	if ep := r.byName[d.req.Decoder]; ep != nil {
		model := ""
		for i := range d.pool.members {
			if d.pool.members[i].ep == ep {
				model = d.pool.members[i].model
			}
		}
		narrow(&d.prefill, func(c *pick.Candidate) bool {
			return c.Slot != ep.slot && c.Kind == ep.kind() && c.Model == model
		})
	}
	if len(d.prefill.Candidates) == 0 {
		return r.noEndpoint(d, fleet.LegPrefill)
	}
	settle(&d.prefill, &d.whoFill)
	d.compute = placement{&d.prefill, &d.whoFill, r.choose(d, &d.prefill)}
	return nil
}

// chooseDecode chooses another endpoint to answer from what the prefiller has computed.
func (r *Router) chooseDecode(d *decision) error {
	if err := r.fill(d, &d.whole, &d.who); err != nil {
		return err
	}
	narrow(&d.whole, func(c *pick.Candidate) bool { return c.Name != d.req.Prefiller })
	if len(d.whole.Candidates) == 0 {
		return r.noEndpoint(d, fleet.LegWhole)
	}
	settle(&d.whole, &d.who)
	r.fillDecode(d)
	if d.decode.Forced == pick.ReasonHolder {
		d.decode.Forced = ""
	}
	d.why = SplitKept
	d.answer = placement{&d.decode, &d.who, r.choose(d, &d.decode)}
	return nil
}

// fillPrefill fills the table of the endpoints that could compute the prompt.
func (r *Router) fillPrefill(d *decision) error {
	d.whoFill = r.conversations.Reader().FindOther(d.now, d.scope(fleet.LegPrefill), &d.who)
	err := r.fill(d, &d.prefill, &d.whoFill)
	if d.prefill.Forced == pick.ReasonHolder {
		d.prefill.Forced = ""
	}
	return err
}

// fill fills a table with the endpoints that may take a leg of the request, and what is known of them.
func (r *Router) fill(d *decision, v *pick.View, t *conversation.Found) error {
	if err := r.admit(d, v, t); err != nil {
		return err
	}
	v.Now, v.PromptTokens, v.OutputTokens = d.now, d.size.Tokens, d.pool.size.Answer(d.req)
	if v.Leg == fleet.LegPrefill {
		v.OutputTokens = 1
	}
	v.FirstTurn = d.req.Class == fleet.Turn && (!t.Known || t.Entry.Turns == 1 && len(tried(d.req, v.Leg)) > 0) // a retry is still the same turn
	v.NewID = t.NewID
	settle(v, t)
	v.Repeats = t.Repeats
	v.Hash = placeHash(d.req, t.ID)
	d.pcg.Seed(d.req.Seed, 0x9e3779b97f4a7c15+uint64(v.Leg))
	v.Rand = d.rng
	prompt := r.prompt(d, t)
	r.cache.Reader().Predict(v, &d.text, &prompt)
	r.speed.Reader().Fill(v)
	r.arrivals.Expect(v)
	r.backlog.Reader().Expect(v, r.speed.Reader())
	if r.awaiting && len(v.Candidates) > 1 {
		r.arrivals.ExpectReturns(v, t.Entry.Endpoint, t.Entry.Rest)
	}
	return nil
}

// prompt is the request as the cache needs to know it.
func (r *Router) prompt(d *decision, t *conversation.Found) cache.Prompt {
	return cache.Prompt{
		Request: d.req, Size: d.size, TokensPerByte: d.pool.size.TokensPerByte(),
		Session: t.ID, Known: t.Known, Entry: t.Entry, Repeats: t.Repeats, Answers: d.pool.answers, CountsActive: r.counting,
	}
}

// fillDecode makes the table of the decode leg from that of whole requests: what is not cached at an endpoint is not computed there
// but moved to it, and until it can be moved what waits there now goes on.
func (r *Router) fillDecode(d *decision) {
	v, first := d.startDecode(), d.prefillMs()
	r.speed.Reader().FillTransfer(v)
	r.backlog.Reader().ExpectDecode(&d.whole, v, first, r.speed.Reader())
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.DelayMs = c.LinkMs
	}
}

// startDecode is the table of the decode leg with the rows of whole requests. Rows that have been priced as decode legs keep their terms.
func (d *decision) startDecode() *pick.View {
	v := &d.decode
	priced := len(v.Candidates) > 0
	rows := v.Candidates
	*v = d.whole
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
func settle(v *pick.View, t *conversation.Found) {
	v.Home, v.Parent = row(v, t.Entry.Endpoint), row(v, t.Parent)
	if !t.Known {
		v.Home = row(v, t.Hint)
	}
}

// row is the index of an endpoint's row, -1 when it has none or name is "".
func row(v *pick.View, name string) int {
	for i := range v.Candidates {
		if name != "" && v.Candidates[i].Name == name {
			return i
		}
	}
	return -1
}

// narrow drops the rows for which ok is false, all of them if need be.
func narrow(v *pick.View, ok func(c *pick.Candidate) bool) {
	n := 0
	for i := range v.Candidates {
		if ok(&v.Candidates[i]) {
			v.Candidates[n] = v.Candidates[i]
			n++
		}
	}
	v.Candidates = v.Candidates[:n]
}

// choose asks the leg's policy, where there is a choice.
func (r *Router) choose(d *decision, v *pick.View) pick.Choice {
	policy := d.pool.policyFor(v.Leg)
	switch {
	case v.Forced != "":
		return pick.Choice{Index: 0, Reason: v.Forced}
	case len(v.Candidates) == 1:
		if pick.AskedAlone(policy) {
			policy.Pick(v, d.req)
		}
		if v.Home == 0 {
			return pick.Choice{Index: 0, Reason: pick.ReasonSession}
		}
		return pick.Choice{Index: 0, Reason: pick.ReasonOnly}
	}
	return policy.Pick(v, d.req)
}

// commit reserves what was chosen for a leg.
func (r *Router) commit(d *decision, p *placement) Decision {
	v, t, choice := p.view, p.who, p.choice
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
		Session: t.ID, FirstTurn: v.FirstTurn, NewID: v.NewID, Reason: choice.Reason, Candidates: len(v.Candidates),
		PromptTokens: v.PromptTokens, CachedTokens: c.CachedTokens, Leg: v.Leg, Why: d.why, Weighed: d.weighed,
	}
	if v.Leg == fleet.LegPrefill {
		made.Handover = ep.report.Handover
	}
	if made.Model == "" || d.req.Model == "" {
		made.Model = d.req.Model
	}
	if made.TTFTMs = reckoned(d.req, v, choice.Index); made.TTFTMs > 0 && v.Leg == fleet.LegDecode {
		made.TTFTMs += d.ready
	}
	made.Peer = ep.peer()
	made.Lease = r.reserve(d, v, t, ep, &made, choice.Index)
	f := r.flight(made.Lease)
	r.tellReserved(d.req, v, made.Lease, choice.Index)
	r.tell(d.req, v, made.Lease, t, choice.Index)
	if d.req.Class == fleet.Turn {
		r.bind(d, v, t, f, c.Model)
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

// scope is where the conversations of a leg are remembered.
func (d *decision) scope(l fleet.Leg) conversation.Scope {
	return conversation.Scope{Tenant: d.req.Tenant, Pool: d.pool.nameFor(l)}
}

// hasRoles reports whether one of the members says what it is there for: only then is anything split.
func hasRoles(members []member) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.ep.spec.Role != fleet.RoleBoth })
}
