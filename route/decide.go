package route

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/shortlist"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/route/internal/split"
)

// decision is the state of one decision, passed from step to step. Nothing of it is read after the call; its memory is reused.
type decision struct {
	now     time.Time
	req     *fleet.Request
	pool    pool.Pool          // of the model, with its policies
	who     conversation.Found // the conversation, in the scope of the answer
	whoFill conversation.Found // the same in the scope of the prefill side
	size    size.Prompt        // tokens, and where each block ends
	why     SplitWhy           // why it is split or not, as far as known
	open    bool               // the candidates' costs decide whether it is split
	weighed Weighed
	asker   backlog.Asker
	decodes bool    // whole has the candidates of a decode leg, not of a whole request
	ready   float64 // of a decode leg: ms until the prompt is expected to be computed elsewhere

	text    cache.Text // cached prefixes at all endpoints
	prefill pick.View  // a view for each leg; empty for a leg that is not considered
	whole   pick.View
	decode  pick.View

	answer  placement // placement of the answer or of the whole request
	compute placement // placement of the prefill leg

	told conversation.Heard // the conversation, for other routers; only with Config.Replicas

	panicked uint64        // number of views for which ejections for failed requests were ignored
	members  []pool.Member // scratch of admit
	list     shortlist.List
	not      []int32 // scratch of shorten, as is named
	named    []int32
	pcg      *rand.PCG // one generator for all legs
	rng      *rand.Rand
}

// placement is the row chosen for a leg.
type placement struct {
	view   *pick.View // nil for a leg that is not placed
	who    *conversation.Found
	choice pick.Asked
}

// reset prepares the value for the next decision.
func (d *decision) reset(now time.Time, req *fleet.Request) *decision {
	d.now, d.req, d.pool = now, req, pool.Pool{}
	d.size = size.Prompt{}
	d.why, d.open, d.weighed, d.decodes, d.ready = "", false, Weighed{}, req.Leg == fleet.LegDecode, 0
	blank(&d.prefill, fleet.LegPrefill)
	blank(&d.whole, fleet.LegWhole)
	blank(&d.decode, fleet.LegDecode)
	d.answer, d.compute, d.panicked = placement{}, placement{}, 0
	return d
}

// blank empties a view and keeps the memory of its rows.
func blank(v *pick.View, l fleet.Leg) {
	rows := v.Candidates[:0]
	*v = pick.View{}
	v.Leg, v.Home, v.Parent, v.Candidates = l, -1, -1, rows
}

// Decide chooses where a request goes and reserves its work there. If its pool has roles, or needs none, and Request.Splits is
// set, the request may be split: the plan then has two leases, each ended by exactly one Finished. The prefill leg gets
// FirstByte when its prompt is computed and Finished when its KV cache is no longer needed there; the decode leg gets
// Transferring when its decoder has been asked.
//
// With Request.Leg it decides only that leg of a split request again: Plan.Prefill for LegPrefill, the plan's own Decision for
// LegDecode. The errors are *UnknownIDError, *UnknownModelError, *ModelRequiredError, *KindError, *PinError, *NoEndpointError, *QueueFullError and, with
// Request.Again, ErrRetryBudget.
func (r *Router) Decide(now time.Time, req *fleet.Request) (p Plan, err error) {
	d, see := r.pad.reset(now, req), r.see
	if err = see.plan(d); err != nil {
		r.refuse(d, err)
		return p, err
	}
	r.place(d, &p)
	return p, nil
}

// plan collects what is known and chooses. It writes only to the decision; place or refuse, which come last, write the rest.
func (r *readers) plan(d *decision) error {
	if !r.budget.Allows(d.now, d.req) {
		return ErrRetryBudget
	}
	if err := r.owns(d); err != nil {
		return err
	}
	if err := r.identify(d); err != nil {
		return err
	}
	d.asker = asker(d.req, r.replicas)
	if err := r.chooseLegs(d); err != nil {
		return err
	}
	return r.queueFull(d)
}

// refuse records a request that is not placed.
func (r *Router) refuse(d *decision, err error) {
	var full *QueueFullError
	switch {
	case errors.Is(err, ErrRetryBudget):
		r.budget.Refuse()
	case errors.As(err, &full):
		r.queueRefused++
	}
	if d.pool.Exists() {
		r.note(d)
	}
}

// place records what was found and reserves what was chosen, the prefill leg first.
func (r *Router) place(d *decision, p *Plan) {
	r.others.news = r.others.news[:0]
	r.note(d)
	if d.compute.view != nil {
		r.commit(d, &d.compute, &p.Prefill)
		d.ready = p.Prefill.TTFTMs
	}
	if d.answer.view != nil {
		r.commit(d, &d.answer, &p.Decision)
	}
	if d.compute.view == nil {
		p.View = d.answer.view
	}
	p.News = r.others.news
	r.budget.Enter(d.now, d.req)
}

// note records that the request was seen, whether or not it was placed.
func (r *Router) note(d *decision) {
	r.arrivals.Age(d.now)
	r.pools.Keep(d.pool)
	r.panicked += d.panicked
	if r.cfg.Replicas {
		d.told = r.conversations.Reader().Told(d.scope(fleet.LegWhole), d.req, &d.who)
	}
	r.conversations.Note(d.now, d.scope(fleet.LegWhole), d.req, &d.who)
	r.cache.Note(&d.text)
}

// identify finds the pool, the conversation, the prompt's size, and whether the request may be split.
func (r *readers) identify(d *decision) (err error) {
	if d.pool, err = r.poolFor(d.req); err != nil {
		return err
	}
	r.conversations.Find(d.now, d.scope(fleet.LegWhole), d.req, &d.who)
	if d.who.Known {
		d.size = d.pool.Measure(d.req, d.who.Entry.Bytes, d.who.Entry.Prompt)
	} else {
		d.size = d.pool.Measure(d.req, 0, 0)
	}
	return nil
}

// poolFor finds the pool of a request.
func (r *readers) poolFor(req *fleet.Request) (pool.Pool, error) {
	name := req.Model
	if name == "" {
		several := false
		if req.Class != fleet.Aside && !req.Native {
			name, several = r.pools.Base()
		} else if req.Binds {
			several = !r.pools.Alike()
		}
		if several {
			return pool.Pool{}, &ModelRequiredError{Known: r.pools.SomeNames()}
		}
		return r.pools.Named(name), nil
	}
	p := r.pools.Named(name)
	if p.Len() > 0 {
		return p, nil
	}
	if p = r.pools.Named(pool.Any); p.Len() > 0 {
		return p, nil
	}
	if r.endpoints.Len() == 0 {
		return r.pools.Named(""), nil // admit returns the error
	}
	return pool.Pool{}, &UnknownModelError{Model: req.Model, Known: r.pools.SomeNames(), Alias: r.pools.AliasOf(req.Model)}
}

// chooseLegs chooses the endpoints for the answer, for the prompt, or both.
func (r *readers) chooseLegs(d *decision) error {
	r.cache.Begin(&d.text)
	switch d.req.Leg {
	case fleet.LegPrefill:
		return r.choosePrefill(d)
	case fleet.LegDecode:
		return r.chooseDecode(d)
	default:
		return r.chooseWhole(d)
	}
}

// chooseWhole chooses for a request without a placed leg.
func (r *readers) chooseWhole(d *decision) error {
	p, rule := d.pool, &r.rule
	d.why, d.open = rule.Ask(split.Pool{Splits: p.Splits(), Must: p.Bound()}, d.req, d.size.Tokens)
	if d.why.Splits() || d.open {
		switch err := r.fillPrefill(d); {
		case err == nil:
		case r.noFallback && rule.When != WhenFree || p.Bound() && !p.Alone():
			return err
		default:
			d.why, d.open = WholeNoPrefiller, false
		}
	}
	d.decodes = d.why.Splits() && p.Bound()
	if err := r.fill(d, &d.whole, &d.who); err != nil {
		return err
	}
	if len(d.prefill.Candidates) > 0 && d.whole.Forced == pick.ReasonHolder {
		d.why, d.open = WholePinned, false
	}
	choice, picked := pick.Asked{}, false
	switch {
	case !d.open:
	case rule.When == WhenUncached:
		choice, picked = r.choose(d, &d.whole), true
		d.why = rule.Uncached(&d.whole, choice.Index)
	case rule.When == WhenFree:
		d.why, d.weighed, choice.Choice = r.weighFree(d)
		picked = true
	default:
		r.fillDecode(d, split.ReadyMs(&d.prefill))
		d.why, d.weighed = split.Time(&d.prefill, &d.whole, &d.decode)
	}
	if d.why.Splits() {
		r.split(d, choice, picked)
		return nil
	}
	if p.Splits() && (!picked || choice.Reason == pick.ReasonWeighed) {
		cache.OnlyPresent(&d.whole, &d.text)
	}
	if !picked {
		choice = r.choose(d, &d.whole)
	}
	d.answer = placement{&d.whole, &d.who, choice}
	return nil
}

// split chooses endpoints for both legs, the answer first.
func (r *readers) split(d *decision, answer pick.Asked, picked bool) {
	r.fillDecode(d, split.ReadyMs(&d.prefill))
	if d.decode.Forced = ""; !picked {
		answer = r.choose(d, &d.decode)
	} else if answer.Reason == pick.ReasonWeighed {
		split.Price(&d.decode)
	}
	decoder := &d.decode.Candidates[answer.Index]
	narrow(&d.prefill, func(c *pick.Candidate) bool {
		return c.Name != decoder.Name && c.Model == decoder.Model && c.Kind == decoder.Kind
	})
	if len(d.prefill.Candidates) == 0 { // the only possible prefiller is the decoder itself
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

// choosePrefill chooses another prefiller for a request that keeps its decoder.
func (r *readers) choosePrefill(d *decision) error {
	if err := r.fillPrefill(d); err != nil {
		return err
	}
	if ep := r.endpoints.Named(d.req.Decoder); ep.Exists() {
		model := ""
		if m, ok := d.pool.MemberAt(ep); ok {
			model = m.Model()
		}
		narrow(&d.prefill, func(c *pick.Candidate) bool {
			return c.Slot != ep.Slot() && c.Kind == ep.Kind() && c.Model == model
		})
	}
	if len(d.prefill.Candidates) == 0 {
		return r.noEndpoint(d, fleet.LegPrefill)
	}
	settle(&d.prefill, &d.whoFill)
	d.compute = placement{&d.prefill, &d.whoFill, r.choose(d, &d.prefill)}
	return nil
}

// chooseDecode chooses another decoder for a prompt that is already computed.
func (r *readers) chooseDecode(d *decision) error {
	if err := r.fill(d, &d.whole, &d.who); err != nil {
		return err
	}
	narrow(&d.whole, func(c *pick.Candidate) bool { return c.Name != d.req.Prefiller })
	if len(d.whole.Candidates) == 0 {
		return r.noEndpoint(d, fleet.LegWhole)
	}
	settle(&d.whole, &d.who)
	r.fillDecode(d, 0)
	if d.decode.Forced == pick.ReasonHolder {
		d.decode.Forced = ""
	}
	d.why = SplitKept
	d.answer = placement{&d.decode, &d.who, r.choose(d, &d.decode)}
	return nil
}

// fillPrefill fills the view of possible prefillers.
func (r *readers) fillPrefill(d *decision) error {
	r.conversations.FindOther(d.now, d.scope(fleet.LegPrefill), &d.who, &d.whoFill)
	err := r.fill(d, &d.prefill, &d.whoFill)
	if d.prefill.Forced == pick.ReasonHolder {
		d.prefill.Forced = ""
	}
	return err
}

// fill fills a view with the endpoints that may take a leg of the request.
func (r *readers) fill(d *decision, v *pick.View, t *conversation.Found) error {
	prompt := r.prompt(d, t)
	if err := r.admit(d, v, t, &prompt); err != nil {
		return err
	}
	v.Now, v.PromptTokens, v.OutputTokens = d.now, d.size.Tokens, d.pool.Answer(d.req)
	if v.Leg == fleet.LegPrefill {
		v.OutputTokens = 1
	}
	v.FirstTurn = d.req.Class == fleet.Turn && (!t.Known || t.Entry.Turns == 1 && len(tried(d.req, v.Leg)) > 0) // a retry is still the same turn
	v.NewID = t.NewID
	settle(v, t)
	v.Repeats = t.Repeats
	v.Hash = placeHash(d.req, t.ID)
	d.pcg.Seed(d.req.Seed, 0x9e3779b97f4a7c15+uint64(v.Leg))
	v.Rand, v.Source = d.rng, d.pcg
	r.cache.Predict(v, &d.text, &prompt)
	r.speed.Fill(v)
	r.arrivals.Expect(v)
	d.pool.Expect(v, r.without)
	r.backlog.Expect(v, d.asker, r.speed)
	r.prices(d, v)
	if r.needs.Returns && len(v.Candidates) > 1 {
		r.arrivals.ExpectReturns(v, t.Entry.Endpoint, t.Entry.Rest)
	}
	return nil
}

// prompt is what the cache needs to know about the request.
func (r *readers) prompt(d *decision, t *conversation.Found) cache.Prompt {
	return cache.Prompt{
		Request: d.req, Size: d.size, TokensPerByte: d.pool.TokensPerByte(),
		Session: t.ID, Known: t.Known, Entry: t.Entry, Repeats: t.Repeats, Answers: d.pool.Answers(), CountsActive: r.needs.Active,
	}
}

// fillDecode derives the view of decode legs from that of whole requests, for a prompt computed elsewhere in readyMs: uncached
// tokens are transferred instead of computed, and work in front proceeds meanwhile. It keeps WeighedMs.
func (r *readers) fillDecode(d *decision, readyMs float64) {
	v := &d.decode
	rows, n := v.Candidates, len(d.whole.Candidates)
	again := len(rows) > 0
	*v = d.whole
	v.Leg, v.Candidates = fleet.LegDecode, slices.Grow(rows[:0], n)[:n]
	for i := range v.Candidates {
		c := &v.Candidates[i]
		weighed := c.WeighedMs
		*c = d.whole.Candidates[i]
		if c.Terms = (pick.Terms{}); again {
			c.WeighedMs = weighed
		}
	}
	r.speed.FillTransfer(v)
	r.backlog.ExpectDecode(&d.whole, v, readyMs, r.speed)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.DelayMs = c.LinkMs
	}
}

// settle finds the rows of the conversation's home and of its parent's.
func settle(v *pick.View, t *conversation.Found) {
	v.Home, v.Parent = row(v, t.Entry.Endpoint), row(v, t.Parent)
	if !t.Known {
		v.Home = row(v, t.Hint)
	}
}

// row is the index of an endpoint's row; -1 when it has none or name is "".
func row(v *pick.View, name string) int {
	for i := range v.Candidates {
		if name != "" && v.Candidates[i].Name == name {
			return i
		}
	}
	return -1
}

// narrow drops the rows for which ok is false, perhaps all.
func narrow(v *pick.View, ok func(c *pick.Candidate) bool) {
	n := 0
	for i := range v.Candidates {
		if ok(&v.Candidates[i]) {
			if n < i {
				v.Candidates[n] = v.Candidates[i]
			}
			n++
		}
	}
	v.Candidates = v.Candidates[:n]
}

// choose asks the leg's policy if there is a choice. The policy changes nothing before commit.
func (r *readers) choose(d *decision, v *pick.View) pick.Asked {
	switch {
	case v.Forced != "":
		return pick.Asked{Choice: pick.Choice{Index: 0, Reason: v.Forced}}
	case len(v.Candidates) == 1:
		if v.Home == 0 {
			return d.pool.Only(v, pick.ReasonSession)
		}
		return d.pool.Only(v, pick.ReasonOnly)
	}
	return d.pool.Ask(v, d.req)
}

// commit reserves the row chosen for a leg, and lets its policy learn from the choice.
func (r *Router) commit(d *decision, p *placement, made *Decision) {
	v, t, choice := p.view, p.who, p.choice.Choice
	policy := r.pools.Policy(d.pool, v.Leg)
	policy.Placed(&p.choice, d.req)
	if v.Leg == fleet.LegDecode {
		for i := range v.Candidates { // for a decode leg, a policy's prefill term is the transfer
			terms := &v.Candidates[i].Terms
			terms.Transfer, terms.Prefill = terms.Prefill, 0
		}
	}
	c := &v.Candidates[choice.Index]
	ep := r.endpoints.At(c.Slot)
	made.Endpoint, made.Kind, made.Peer = ep.Spec(), c.Kind, ep.Peer()
	made.Model, made.Pool, made.Policy = c.Model, d.pool.Name(), policy.Needs.Name
	made.Session, made.FirstTurn, made.NewID = t.ID, v.FirstTurn, v.NewID
	if conversation.IsKey(t.ID) {
		made.Session = "" // only another router knows the client's id
	}
	made.Reason, made.Candidates = choice.Reason, v.Eligible()
	made.PromptTokens, made.CachedTokens = v.PromptTokens, c.CachedTokens
	made.Leg, made.Why, made.Weighed, made.Gate = v.Leg, d.why, d.weighed, v.Gate
	if v.Leg == fleet.LegPrefill {
		made.Handover = ep.Handover()
	}
	if made.Model == "" || d.req.Model == "" {
		made.Model = d.req.Model
	}
	if made.TTFTMs = reckoned(d.req, v, choice.Index); made.TTFTMs > 0 && v.Leg == fleet.LegDecode {
		made.TTFTMs += d.ready
	}
	if d.pool.Shortlists() && v.Leg != fleet.LegDecode { // the speeds in its rows are those of transfers
		r.shortlist.See(v)
	}
	f := r.reserve(d, v, t, ep, made, choice.Index)
	if f.released = policy.Hooks.Released; policy.Hooks.Reserved != nil {
		policy.Hooks.Reserved(f.decision.Lease, c, v, d.req)
	}
	r.explain(d.req, v, f, t, choice.Index)
	if d.req.Class == fleet.Turn {
		r.bind(d, v, t, f, c.Model)
		if counts(v, choice.Reason) {
			r.pools.Turn(d.pool, v.Leg, v.FirstTurn, v.PromptTokens-c.CachedTokens)
		}
	}
	if r.cfg.Replicas {
		r.tellPlaced(d, v, t, f)
	}
	r.decisions++
}

// counts reports whether a turn counts among those that its pool's policy places: there was a choice, and it was the policy's.
func counts(v *pick.View, why pick.Reason) bool { return v.Eligible() > 1 && why != pick.ReasonWeighed }

// tried is the endpoints at which the leg has failed.
func tried(req *fleet.Request, l fleet.Leg) []string {
	if l == fleet.LegPrefill {
		return req.TriedPrefill
	}
	return req.Tried
}

// scope is the namespace of a leg's conversations.
func (d *decision) scope(l fleet.Leg) conversation.Scope {
	return conversation.Scope{Tenant: d.req.Tenant, Pool: d.pool.Namespace(l)}
}
