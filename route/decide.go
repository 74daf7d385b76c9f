package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/size"
)

// side is the candidates of one leg of a request, while the other leg is looked at.
type side struct {
	view    pick.View
	members []*member
	depths  []int
	exact   []bool // see kvTable.used
	leg     fleet.Leg
}

// swap exchanges the side that is looked at for the one put aside.
func (r *Router) swap() {
	o := &r.other
	r.view, o.view = o.view, r.view
	r.members, o.members = o.members, r.members
	r.belief.depths, o.depths = o.depths, r.belief.depths
	r.kv.used, o.exact = o.exact, r.kv.used
	r.leg, o.leg = o.leg, r.leg
}

// Decide decides where a request goes and reserves its work there, as Route does. Where endpoints have roles, and the
// request's Splits says that its door can, it may go to two of them: the plan then holds two leases, each to be ended by exactly
// one Finished. That of the prefill leg is told FirstByte when the prompt is computed and Finished when its KV cache is no
// longer needed there; that of the decode leg Transferring when the decoder is asked.
//
// With Request.Leg only that leg of a request that was split before is decided, again: Plan.Prefill with LegPrefill, the plan's
// own Decision with LegDecode. The errors are those of Route.
func (r *Router) Decide(now time.Time, req *fleet.Request) (Plan, error) {
	if !r.retries.allow(now, req) {
		return Plan{}, ErrRetryBudget
	}
	p, err := r.plan(now, req)
	if err == nil {
		r.retries.enter(now, req)
	}
	return p, err
}

// plan does so, whatever the retry budget says.
func (r *Router) plan(now time.Time, req *fleet.Request) (Plan, error) {
	p, err := r.poolFor(req)
	if err != nil {
		return Plan{}, err
	}
	t := r.recall(now, p, req)
	m := p.measure(req, &t)
	r.isNew = r.newID(p, req, &t)
	r.why, r.weighed, r.apartOnly = "", Weighed{}, req.Leg == fleet.LegDecode
	switch req.Leg {
	case fleet.LegPrefill:
		return r.decidePrefill(now, p, req, &t, &m)
	case fleet.LegDecode:
		return r.decideDecode(now, p, req, &t, &m)
	case fleet.LegWhole:
	}
	why, open := r.mayPart(p, req, m.Tokens)
	aside := false
	if why.Splits() || open {
		switch err := r.considerPrefill(now, p, req, &t, &m); {
		case err == nil:
			aside = true
			r.swap()
		case r.cfg.Disaggregation.NoFallback && r.cfg.Disaggregation.When != WhenFree || p.bound() && !p.alone():
			return Plan{}, err
		default:
			why, open = WholeNoPrefiller, false
		}
	}
	r.apartOnly = why.Splits() && p.bound()
	holder, err := r.consider(now, p, req, &t, &m, fleet.LegWhole)
	if err != nil {
		return Plan{}, err
	}
	if aside && holder >= 0 {
		why, open = WholePinned, false
	}
	choice, picked := pick.Choice{}, false
	switch {
	case !open:
	case r.cfg.Disaggregation.When == WhenUncached:
		choice, picked = r.choose(p, req, holder), true
		why = r.uncached(choice.Index)
	case r.cfg.Disaggregation.When == WhenFree:
		why, r.weighed, choice = r.weighFree(&m)
		picked = true
	default:
		why, r.weighed = r.weigh(&m)
	}
	if r.why = why; why.Splits() {
		return r.split(now, p, req, &t, choice, picked)
	}
	if p.parts && (!picked || choice.Reason == pick.ReasonWeighed) {
		r.onlyPresent(&m)
	}
	if !picked {
		choice = r.choose(p, req, holder)
	}
	d := r.commit(now, p, req, &t, choice)
	return Plan{Decision: d}, nil
}

// split reserves both legs. The candidates that decode are in r.view, those that compute the prompt put aside.
func (r *Router) split(now time.Time, p *pool, req *fleet.Request, t *talk, decode pick.Choice, picked bool) (Plan, error) {
	r.asDecodeLegs()
	if !picked {
		decode = r.choose(p, req, -1)
	}
	decoder := &r.view.Candidates[decode.Index]
	name, model, kind := decoder.Name, decoder.Model, r.members[decode.Index].ep.kind()
	r.swap()
	r.strictly(func(i int) bool {
		c := &r.view.Candidates[i]
		return c.Name != name && c.Model == model && r.members[i].ep.kind() == kind
	})
	if len(r.members) == 0 { // the only one that could compute the prompt is to decode it
		r.swap()
		r.asWhole(now)
		r.why = WholeNoPrefiller
		d := r.commit(now, p, req, t, decode)
		return Plan{Decision: d}, nil
	}
	r.settleView(&r.apart)
	plan := Plan{Prefill: r.commit(now, p, req, &r.apart, r.choose(p, req, -1))}
	first := plan.Prefill.TTFTMs
	r.swap()
	r.first = first
	plan.Decision = r.commit(now, p, req, t, decode)
	r.first = 0
	return plan, nil
}

// decidePrefill finds another endpoint to compute the prompt of a request whose decoder stays.
func (r *Router) decidePrefill(now time.Time, p *pool, req *fleet.Request, t *talk, m *size.Prompt) (Plan, error) {
	if err := r.considerPrefill(now, p, req, t, m); err != nil {
		return Plan{}, err
	}
	if ep := r.byName[req.Decoder]; ep != nil {
		model := ""
		for i := range p.members {
			if p.members[i].ep == ep {
				model = p.members[i].model
			}
		}
		r.strictly(func(i int) bool {
			other := r.members[i].ep
			return other != ep && other.kind() == ep.kind() && r.view.Candidates[i].Model == model
		})
	}
	if len(r.members) == 0 {
		return Plan{}, r.noEndpoint(now, p, req)
	}
	r.settleView(&r.apart)
	d := r.commit(now, p, req, &r.apart, r.choose(p, req, -1))
	return Plan{Prefill: d}, nil
}

// decideDecode finds another endpoint to answer from what the prefiller has computed.
func (r *Router) decideDecode(now time.Time, p *pool, req *fleet.Request, t *talk, m *size.Prompt) (Plan, error) {
	if _, err := r.consider(now, p, req, t, m, fleet.LegWhole); err != nil {
		return Plan{}, err
	}
	r.strictly(func(i int) bool { return r.view.Candidates[i].Name != req.Prefiller })
	if len(r.members) == 0 {
		return Plan{}, r.noEndpoint(now, p, req)
	}
	r.settleView(t)
	r.other.view.Candidates = r.other.view.Candidates[:0] // the prompt is computed
	r.asDecodeLegs()
	r.why = SplitKept
	return Plan{Decision: r.commit(now, p, req, t, r.choose(p, req, -1))}, nil
}

// considerPrefill fills the view with the endpoints that could compute the prompt.
func (r *Router) considerPrefill(now time.Time, p *pool, req *fleet.Request, t *talk, m *size.Prompt) error {
	r.apart = r.recallPrefill(now, p, req, t)
	_, err := r.consider(now, p, req, &r.apart, m, fleet.LegPrefill)
	return err
}

// consider fills the view with the endpoints that may take a leg of the request, and what is known of them.
func (r *Router) consider(now time.Time, p *pool, req *fleet.Request, t *talk, m *size.Prompt, l fleet.Leg) (holder int, err error) {
	r.leg, r.counts = l, false
	holder, err = r.candidates(now, p, req, m.Tokens, *t)
	if err != nil {
		return holder, err
	}
	v := &r.view
	v.Leg = l
	v.Now, v.PromptTokens, v.OutputTokens = now, m.Tokens, p.size.Answer(req)
	if l == fleet.LegPrefill {
		v.OutputTokens = 1
	}
	v.FirstTurn = req.Class == fleet.Turn && (!t.known || t.entry.Turns == 1 && len(tried(req, l)) > 0) // a retry is still the same turn
	v.NewID = r.isNew
	r.settleView(t)
	v.Repeats = t.repeats
	v.Hash = placeHash(req, t.id)
	r.pcg.Seed(req.Seed, 0x9e3779b97f4a7c15+uint64(l))
	v.Rand = r.rng
	r.predict(p, req, t, m)
	r.count(p, req, m)
	r.expect(now)
	r.findReturns(now, t)
	return holder, nil
}

// settleView finds the conversation's own endpoints among the candidates.
func (r *Router) settleView(t *talk) {
	r.view.Home, r.view.Parent = r.member(t.entry.Endpoint), r.member(t.parent)
	if !t.known {
		r.view.Home = r.member(t.hint)
	}
}

// commit reserves what was chosen.
func (r *Router) commit(now time.Time, p *pool, req *fleet.Request, t *talk, choice pick.Choice) Decision {
	if r.leg == fleet.LegDecode {
		r.moves()
	}
	v := &r.view
	ep, c := r.members[choice.Index].ep, &v.Candidates[choice.Index]
	d := Decision{
		Endpoint: ep.spec, Kind: ep.kind(), Model: c.Model, Pool: p.name, Policy: r.policyName(p),
		Session: t.id, FirstTurn: v.FirstTurn, NewID: v.NewID, Reason: choice.Reason, Candidates: len(v.Candidates),
		PromptTokens: v.PromptTokens, CachedTokens: c.CachedTokens, Leg: r.leg, Why: r.why, Weighed: r.weighed,
	}
	if r.leg == fleet.LegPrefill {
		d.Handover = ep.report.Handover
	}
	if d.Model == "" || req.Model == "" {
		d.Model = req.Model
	}
	if d.TTFTMs = r.reckoned(req, choice.Index); d.TTFTMs > 0 && r.leg == fleet.LegDecode {
		d.TTFTMs += r.first
	}
	d.Peer = ep.peer()
	d.Lease = r.reserve(now, ep, p, req, &d, choice.Index)
	f := r.flight(d.Lease)
	f.recent = ep.recent(t)
	if f.goesOn(t); f.base > 0 {
		f.since = r.since(ep, t)
	}
	r.tellReserved(req, d.Lease, choice.Index)
	r.tell(req, d.Lease, t, choice.Index)
	if req.Class == fleet.Turn {
		r.bind(now, p, req, *t, ep, &d, c.Model)
	}
	r.decisions++
	return d
}

// policyName is the configured name of the policy that places the leg.
func (r *Router) policyName(p *pool) string {
	switch {
	case !p.parts:
		return r.cfg.PolicyName
	case r.leg == fleet.LegPrefill:
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

// strictly drops the candidates for which ok is false, all of them if need be.
func (r *Router) strictly(ok func(i int) bool) {
	n := 0
	for i := range r.members {
		if ok(i) {
			r.members[n], r.view.Candidates[n] = r.members[i], r.view.Candidates[i]
			if i < len(r.belief.depths) {
				r.belief.depths[n] = r.belief.depths[i]
			}
			if i < len(r.kv.used) {
				r.kv.used[n] = r.kv.used[i]
			}
			n++
		}
	}
	r.members, r.view.Candidates = r.members[:n], r.view.Candidates[:n]
	if n < len(r.belief.depths) {
		r.belief.depths = r.belief.depths[:n]
	}
	r.kv.used = r.kv.used[:min(n, len(r.kv.used))]
}

// recallPrefill is what is remembered of the conversation on the prefill side, where it has a home of its own.
func (r *Router) recallPrefill(now time.Time, p *pool, req *fleet.Request, t *talk) talk {
	apart := talk{id: t.id, minted: t.minted, repeats: t.repeats}
	if apart.id == "" {
		return apart
	}
	if apart.entry, apart.known = r.sessions.Get(now, req.Tenant, p.prefillName, t.id); apart.known {
		return apart
	}
	if apart.entry, apart.known = r.newborn.Get(now, req.Tenant, p.prefillName, t.id); apart.known {
		apart.newborn = !t.minted
	}
	return apart
}

// hasRoles reports whether one of the members says what it is there for: only then is anything split.
func hasRoles(members []member) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.ep.spec.Role != fleet.RoleBoth })
}
