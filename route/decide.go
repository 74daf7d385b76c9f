package route

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cost"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/internal/shortlist"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/route/internal/split"
)

// decision is the state of one decision, passed from step to step. Nothing of it is read after the call.
type decision struct {
	now  time.Time
	req  *fleet.Request
	pool pool.Pool // of the model, with its policies
	// of an alias whose models divide its requests: which of them both legs get, once it is settled
	model  string
	passed []PassedOver // of an alias whose models are in order: those before it
	// of all those: ms for which admission would hold it, 0 where it would not or is not asked; or nil
	holdMs  []float64
	size    size.Prompt // tokens, and where each block ends
	why     SplitWhy    // why it is split or not, as far as known
	open    bool        // the candidates' costs decide whether it is split
	weighed Weighed
	turn    admission.Turn // as admission sees it
	asker   backlog.Asker
	decodes bool    // whole has the candidates of a decode leg, not of a whole request
	ready   float64 // of a decode leg: ms until the prompt is expected to be computed elsewhere
	missed  cache.Missed

	answer  placement // placement of the answer or of the whole request
	compute placement // placement of the prefill leg

	announcement conversation.Announcement // the conversation, for other routers; only with Config.Replicas

	panicked uint8 // bits of the legs for which ejections for failed requests were ignored

	*scratch
}

// scratch is memory that decisions reuse. Each step that uses some writes it first.
type scratch struct {
	who     conversation.Found // the conversation, in the scope of the answer
	whoFill conversation.Found // the same in the scope of the prefill side

	prefill pick.View // a view for each leg that is considered
	whole   pick.View
	decode  pick.View
	arrived pick.View // whole, where what is still to be transferred does not count

	text          cache.Text // cached prefixes at all endpoints
	free          split.Free
	members       []pool.Member // of candidates
	others        pool.Others   // some of these
	options       []option      // of settle, as are serving and servingOthers
	serving       []pool.Member
	servingOthers pool.Others
	cached        []pick.Cached                     // of fill
	shared        []int64                           // of admit, by row of whole: tokens that members have there
	sharedAt      []admission.SharedAt              // the same of the endpoints where it is not 0
	rows          [arrivedRows + 1][]pick.Candidate // of each leg
	list          shortlist.List
	not           []int32 // of shortlisted, as is named
	named         []int32
	chance        [fleet.LegPrefill + 1]chance // for choosing who answers, and who computes the prompt
}

// chance is a generator of random numbers.
type chance struct {
	source *rand.PCG
	rand   *rand.Rand
}

func newChance() (c chance) {
	c.source = rand.NewPCG(0, 0)
	c.rand = rand.New(c.source)
	return c
}

// arrivedRows is in the place of a leg.
const arrivedRows = fleet.LegDecode + 1

// rowsOf is memory for so many rows of a leg's view.
func (s *scratch) rowsOf(l fleet.Leg, n int) []pick.Candidate {
	s.rows[l] = slices.Grow(s.rows[l][:0], n)[:n]
	return s.rows[l]
}

// placement is the row chosen for a leg.
type placement struct {
	view   *pick.View // nil for a leg that is not placed
	who    *conversation.Found
	choice pick.Tentative
	scope  cost.Scope // in which the terms are reckoned, where the policy has not
}

// reset begins the next decision.
func (d *decision) reset(now time.Time, req *fleet.Request) *decision {
	s := d.scratch
	*d = decision{}
	d.now, d.req, d.decodes, d.scratch = now, req, req.Leg == fleet.LegDecode, s
	return d
}

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
	d, see := r.scratch.reset(now, req), r.readers
	err := see.plan(d)
	switch {
	case errors.Is(err, errHeld):
		p.Hold = r.hold(d)
		return nil
	case err != nil:
		r.refuse(d, err)
	default:
		r.place(d, p)
	}
	r.admission.EndHold(req.Hold)
	return err
}

// plan collects what is known and chooses. It writes only to the decision; place or refuse, which come last, write the
// rest.
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
func (r *Router) place(d *decision, p *Made) {
	r.replicas.news = r.replicas.news[:0]
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
	p.News = r.replicas.news
	r.budget.Enter(d.now, d.req)
}

// note records that the request was seen, whether or not it was placed.
func (r *Router) note(d *decision) {
	r.arrivals.Age(d.now)
	r.pools.Keep(d.pool)
	r.panicked += uint64(bits.OnesCount8(d.panicked))
	if r.cfg.Replicas {
		d.announcement = r.conversations.Reader().Announce(d.scope(fleet.LegUnsplit), d.req, &d.who)
	}
	r.conversations.Note(d.now, d.scope(fleet.LegUnsplit), d.req, &d.who)
	r.cache.Note(&d.text, d.missed)
}

// identify finds the pool, the conversation, the prompt's size, and whether the request may be split.
func (r *readers) identify(d *decision) (err error) {
	if d.pool, err = r.poolFor(d.req); err != nil {
		return err
	}
	if d.pool.Divides() && d.req.Leg != fleet.LegUnsplit {
		d.model = d.req.LegModel
	}
	r.conversations.Find(d.now, d.scope(fleet.LegUnsplit), d.req, &d.who)
	if d.who.Known {
		d.size = d.pool.Measure(d.req, d.who.Entry.Bytes, d.who.Entry.Prompt)
	} else {
		d.size = d.pool.Measure(d.req, 0, 0)
	}
	return nil
}

// owns reports an id among those that must be known for the request's tenant which is not: it is another tenant's, was
// forgotten, or never existed, and all three look alike.
func (r *readers) owns(d *decision) error {
	for _, id := range d.req.Owned {
		if _, ok := r.conversations.Holder(d.now, d.req.Tenant, id); !ok {
			return &UnknownIDError{id}
		}
	}
	return nil
}

// poolFor finds the pool of a request.
func (r *readers) poolFor(req *fleet.Request) (pool.Pool, error) {
	name := req.Model
	if name == "" {
		several := false
		switch {
		case req.Class != fleet.Auxiliary && !req.Native:
			name, several = r.pools.Base()
		case req.Native: // engines of the kind that has the API answer, whatever they serve
			several = !r.pools.OneModel(func(e registry.Endpoint) bool {
				return e.Kind() == fleet.KindSGLang && !slices.Contains(req.Exclude, e.Name())
			})
		case req.Binds:
			several = !r.pools.OneModel(func(registry.Endpoint) bool { return true })
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
		return r.pools.Named(""), nil // that there is none is told when its rows are filled
	}
	return pool.Pool{}, &UnknownModelError{
		Model: req.Model,
		Known: r.pools.SomeNames(),
		Alias: r.pools.AliasOf(req.Model),
	}
}

// chooseLegs chooses the endpoints for the answer, for the prompt, or both.
func (r *readers) chooseLegs(d *decision) error {
	d.missed = r.cache.Begin(&d.text)
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
	p, rule := d.pool, d.pool.Rule()
	d.why, d.open = rule.Ask(split.Pool{Splits: p.Splits(), Must: p.SplitsAlways()}, d.req, d.size.Tokens)
	d.decodes = d.why.Splits() && p.SplitsAlways()
	prefillers := false
	if d.why.Splits() || d.open {
		r.settleModel(d)
		switch _, err := r.fillPrefill(d); {
		case err == nil:
			prefillers = true
		case r.noFallback && rule.When != WhenFree || p.SplitsAlways() && !p.ServesWhole():
			return err
		default:
			d.why, d.open, d.decodes = WholeNoPrefiller, false, false
		}
	}
	forced, err := r.fillWhole(d)
	if err != nil {
		return err
	}
	if prefillers && forced == pick.ReasonHolder {
		d.why, d.open = WholePinned, false
	}
	choice, picked := pick.Tentative{}, false
	switch {
	case !d.open:
	case rule.When == WhenUncached:
		choice, picked = r.choose(d, &d.whole, forced), true
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
	v, scope := &d.whole, cost.Scope{}
	if p.Splits() && (!picked || choice.Reason == pick.ReasonWeighed) {
		v = d.fillArrived()
	}
	if d.open {
		scope = rule.Scope(v)
	}
	if !picked {
		choice = r.choose(d, v, forced)
	}
	d.answer = placement{v, &d.who, choice, scope}
	return nil
}

// fillWhole fills the rows of those that may take the whole request now. It returns errHeld if none may, with any model
// that the request can get.
func (r *readers) fillWhole(d *decision) (forced pick.Reason, err error) {
	for {
		if forced, err = r.fill(d, &d.whole, fleet.LegUnsplit, &d.who); err != nil || r.admit(d, forced) {
			return forced, err
		}
		if !r.overflowsHold(d) {
			return "", r.holdUnlessFull(d)
		}
	}
}

// split chooses endpoints for both legs: who answers, for a prompt that is computed as soon as can be; who computes it
// for that one; and, where that takes longer, who answers it then.
func (r *readers) split(d *decision, answer pick.Tentative, picked bool) {
	ready := split.ReadyMs(&d.prefill)
	r.fillDecode(d, ready)
	if !picked {
		answer = r.choose(d, &d.decode, "")
	}
	decoder := &d.decode.Candidates[answer.Index]
	narrow(&d.prefill, func(row int) bool { return pairs(&d.prefill.Candidates[row], decoder) })
	if len(d.prefill.Candidates) == 0 { // the only possible prefiller is the decoder itself
		d.why = WholeNoPrefiller
		d.answer = placement{view: &d.whole, who: &d.who, choice: answer}
		return
	}
	prompt := r.choose(d, &d.prefill, "")
	prefiller := &d.prefill.Candidates[prompt.Index]
	if ms := split.ReadyAt(&d.prefill, prefiller); ms > ready {
		r.fillDecode(d, ms)
		if !picked {
			narrow(&d.decode, func(row int) bool { return pairs(prefiller, &d.decode.Candidates[row]) })
			answer = r.choose(d, &d.decode, "")
		}
	}
	var ofAnswer, ofPrompt cost.Scope
	if answer.Reason == pick.ReasonWeighed {
		ofAnswer = d.pool.Rule().Scope(&d.decode)
	}
	if d.open {
		ofPrompt = d.pool.Rule().Scope(&d.prefill)
	}
	d.compute = placement{&d.prefill, &d.whoFill, prompt, ofPrompt}
	d.answer = placement{&d.decode, &d.who, answer, ofAnswer}
}

// pairs reports whether one endpoint can compute a prompt that another answers.
func pairs(prefiller, decoder *pick.Candidate) bool {
	return prefiller.Name != decoder.Name && prefiller.Model == decoder.Model && prefiller.Kind == decoder.Kind
}

// choosePrefill chooses another prefiller for a request that keeps its decoder.
func (r *readers) choosePrefill(d *decision) error {
	forced, err := r.fillPrefill(d)
	if err != nil {
		return err
	}
	r.pair(d, &d.prefill, d.req.Decoder)
	if len(d.prefill.Candidates) == 0 {
		return r.noEndpoint(d, fleet.LegPrefill)
	}
	d.compute = placement{view: &d.prefill, who: &d.whoFill, choice: r.choose(d, &d.prefill, forced)}
	return nil
}

// chooseDecode chooses another decoder for a prompt that is already computed.
func (r *readers) chooseDecode(d *decision) error {
	forced, err := r.fill(d, &d.whole, fleet.LegUnsplit, &d.who)
	if err != nil {
		return err
	}
	r.pair(d, &d.whole, d.req.Prefiller)
	if len(d.whole.Candidates) == 0 {
		return r.noEndpoint(d, fleet.LegUnsplit)
	}
	r.fillDecode(d, 0)
	d.why = SplitKept
	d.answer = placement{view: &d.decode, who: &d.who, choice: r.choose(d, &d.decode, pinOf(forced))}
	return nil
}

// pair drops the rows that cannot take one leg of a request whose other leg is at an endpoint.
func (r *readers) pair(d *decision, v *pick.View, other string) {
	ep := r.endpoints.Named(other)
	if !ep.Exists() {
		return
	}
	model := d.model // which the rows have
	if m, ok := d.pool.MemberAt(ep); ok && model == "" {
		model = m.Model()
	}
	narrow(v, func(row int) bool {
		c := &v.Candidates[row]
		return c.Slot != ep.Slot() && c.Kind == ep.Kind() && c.Model == model
	})
}

// fillPrefill fills the view of possible prefillers.
func (r *readers) fillPrefill(d *decision) (forced pick.Reason, err error) {
	r.conversations.FindOther(d.now, d.scope(fleet.LegPrefill), &d.who, &d.whoFill)
	forced, err = r.fill(d, &d.prefill, fleet.LegPrefill, &d.whoFill)
	return pinOf(forced), err
}

// pinOf is what forces the choice for one of two legs: a pin, not the place of a stored response.
func pinOf(forced pick.Reason) pick.Reason {
	if forced == pick.ReasonHolder {
		return ""
	}
	return forced
}

// fill fills a view with the endpoints that may take a leg of the request. Each room says what it knows of one, and is
// given what it has to know for that. forced is set where there is no choice: there is one row then, and no policy is
// asked.
func (r *readers) fill(
	d *decision,
	v *pick.View,
	leg fleet.Leg,
	t *conversation.Found,
) (forced pick.Reason, err error) {
	prompt := r.prompt(d, leg, t)
	a, err := r.candidates(d, leg, t, &prompt)
	if err != nil {
		return "", err
	}
	rows := d.rows[leg]
	at := pick.EndpointsOf(rows)
	home, parent := named(t.Entry.Endpoint, rows), named(t.Parent, rows)
	if !t.Known {
		home = named(t.Hint, rows)
	}
	cached, found, missed := r.cache.Predict(&d.text, &prompt, at, home, a.look, d.missed, d.cached)
	d.cached, d.missed = cached, missed
	q := backlog.Newcomer{
		Asker: d.asker, Now: d.now, PromptTokens: d.size.Tokens, OutputTokens: d.pool.ExpectedOutput(d.req),
	}
	if leg == fleet.LegPrefill {
		q.OutputTokens = 1
	}
	// a retry is still the same turn
	first := d.req.Class == fleet.Turn && (!t.Known || t.Entry.Turns == 1 && len(tried(d.req, leg)) > 0)
	price, common, others := r.prices(d, leg), everywhere(q.PromptTokens, cached), r.arrivals.Fleet(d.now, at)
	for i := range rows {
		c, h := at.At(i), &cached[i]
		shared := common
		if first {
			shared = h.CachedTokens
		}
		pace, decodeMs := r.speed.Pace(c.Slot)
		wait := r.backlog.Expect(&q, c, h, shared, &pace, decodeMs, r.speed)
		var answers pick.DecodePace
		if price.answerWaitCost > 0 {
			answers = r.speed.DecodePace(c.Slot, max(0, c.Load.Working()-wait.Prompts))
		}
		takes, idle := -1.0, uint32(0)
		if r.needs.Returns && len(rows) > 1 {
			own := cost.OwnTerms(q.PromptTokens, h, &pace, &wait)
			if takes = own.Wait + own.Prefill; t.Entry.Endpoint == c.Name {
				idle = t.Entry.Rest
			}
		}
		demand := r.arrivals.Demand(d.now, c.Slot, &others, idle, takes)
		rows[i].Complete(h, &pace, &wait, &answers, &demand, &pick.Link{})
	}
	chance := &d.chance[leg]
	pick.Seed(chance.source, d.req.Seed, leg)
	*v = pick.View{
		Now: d.now, Rand: chance.rand, Source: chance.source, Candidates: rows, Beyond: a.beyond,
		Home: home, Parent: parent, Repeats: t.Repeats, FirstTurn: first, Leg: leg, NewID: t.NewID,
		Splits: price.splits, Interference: price.interference, AnswerWaitCost: price.answerWaitCost,
		Counted: found.Counted, Known: found.Known, Missed: found.Missed, Watched: others.Watched,
		PromptTokens: q.PromptTokens, OutputTokens: q.OutputTokens, Hash: placeHash(d.req, t.ID),
	}
	v.LaterTurns, v.TurnTokens = d.pool.Turns(leg, r.without)
	return a.forced, nil
}

// everywhere is how many of a prompt's tokens are held at all endpoints: the prefix common to all conversations.
func everywhere(tokens int, cached []pick.Cached) int {
	for i := range cached {
		tokens = min(tokens, cached[i].CachedTokens)
	}
	return tokens
}

// prompt is what the cache needs to know about the request.
func (r *readers) prompt(d *decision, l fleet.Leg, t *conversation.Found) cache.Prompt {
	return cache.Prompt{
		Request: d.req, Now: d.now, Leg: l, Size: d.size, TokensPerByte: d.pool.TokensPerByte(),
		Session: t.ID, Known: t.Known, Entry: t.Entry, Repeats: t.Repeats, AnswerReuse: d.pool.AnswerReuse(),
		CountsActive: r.needs.Active,
	}
}

// fillDecode derives the view of decode legs from that of whole requests, for a prompt computed elsewhere in readyMs:
// uncached tokens are transferred instead of computed, and work in front proceeds meanwhile.
func (r *readers) fillDecode(d *decision, readyMs float64) {
	rows := d.rowsOf(fleet.LegDecode, len(d.whole.Candidates))
	for i := range rows {
		c := &d.whole.Candidates[i]
		wait, link := r.backlog.ExpectDecode(d.now, c, d.whole.PromptTokens, readyMs, r.speed)
		rows[i].Endpoint = c.Endpoint
		rows[i].Complete(&c.Cached, &c.Pace, &wait, &c.DecodePace, &c.Demand, &link)
	}
	d.decode = d.whole
	d.decode.Leg, d.decode.Candidates = fleet.LegDecode, rows
}

// fillArrived derives the view of whole requests for which what is still to be transferred does not count as held.
func (d *decision) fillArrived() *pick.View {
	coming := false
	for i := range d.whole.Candidates {
		h := &d.whole.Candidates[i].Cached
		coming = coming || h.CachedTokens != h.PresentTokens || h.Counted != h.Present
	}
	if !coming {
		return &d.whole
	}
	rows := d.rowsOf(arrivedRows, len(d.whole.Candidates))
	for i := range rows {
		c := &d.whole.Candidates[i]
		arrived := c.Arrived()
		rows[i].Endpoint = c.Endpoint
		rows[i].Complete(&arrived, &c.Pace, &c.Wait, &c.DecodePace, &c.Demand, &pick.Link{})
	}
	d.arrived = d.whole
	d.arrived.Candidates = rows
	return &d.arrived
}

// named is the index of the row with a name; -1 where there is none, or the name is "".
func named(name string, rows []pick.Candidate) int {
	for i := range rows {
		if name != "" && rows[i].Name == name {
			return i
		}
	}
	return -1
}

// narrow drops the rows for which ok is false, perhaps all. ok is asked once for each, in order.
func narrow(v *pick.View, ok func(row int) bool) {
	n, home, parent := 0, -1, -1
	for i := range v.Candidates {
		if !ok(i) {
			continue
		}
		if n < i {
			v.Candidates[n] = v.Candidates[i]
		}
		if i == v.Home {
			home = n
		}
		if i == v.Parent {
			parent = n
		}
		n++
	}
	v.Candidates, v.Home, v.Parent = v.Candidates[:n], home, parent
}

// choose asks the leg's policy if there is a choice. The policy changes nothing before commit.
func (r *readers) choose(d *decision, v *pick.View, forced pick.Reason) pick.Tentative {
	switch {
	case forced != "":
		return pick.Tentative{Choice: pick.Choice{Index: 0, Reason: forced}}
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
	c := &v.Candidates[choice.Index]
	ep := r.endpoints.At(c.Slot)
	made.Endpoint, made.Kind, made.Peer = ep.Spec(), c.Kind, ep.Peer()
	made.Model, made.Adapter, made.Pool, made.Policy = c.Model, c.Adapter, d.pool.Name(), policy.Needs.Name
	made.Session, made.FirstTurn, made.NewID = clientsID(t.ID), v.FirstTurn, v.NewID
	if since := r.readers.admission.Since(d.req.Hold); !since.IsZero() {
		made.Held = d.now.Sub(since)
	}
	made.Reason, made.Candidates = choice.Reason, v.Eligible()
	made.PromptTokens, made.CachedTokens = v.PromptTokens, c.CachedTokens
	made.Leg, made.Why, made.Weighed, made.CacheGate = v.Leg, d.why, d.weighed, v.CacheGate
	made.TellSession, made.Passed = ep.KeepsSessions(), d.passed
	if v.Leg == fleet.LegPrefill {
		made.Handover = ep.Handover()
	}
	if made.Model == "" || d.req.Model == "" {
		made.Model = d.req.Model
	}
	scored := c.Terms != pick.Terms{}
	if choice.Reason == pick.ReasonWeighed {
		for i := range v.Candidates {
			reckoned(d.req, v, i, &p.scope)
		}
	}
	if made.TTFTMs = reckoned(d.req, v, choice.Index, &p.scope); made.TTFTMs > 0 && v.Leg == fleet.LegDecode {
		made.TTFTMs += d.ready
	}
	if d.pool.Shortlists() && v.Leg != fleet.LegDecode { // its rows are those of whole requests
		r.shortlist.See(v)
	}
	f := r.reserve(d, v, t, ep, made, choice.Index)
	if f.released = policy.Hooks.Released; policy.Hooks.Reserved != nil {
		policy.Hooks.Reserved(f.decision.Lease, c, v, d.req)
	}
	r.explain(d, p, f, scored)
	if d.req.Class == fleet.Turn {
		r.bind(d, v, t, f, c.Model)
		r.addMember(d, v, f, c)
		if counts(v, choice.Reason) {
			r.pools.Turn(d.pool, v.Leg, v.FirstTurn, v.PromptTokens-c.CachedTokens)
		}
	}
	if r.cfg.Replicas {
		r.tellPlaced(d, v, t, f)
	}
	r.decisions++
}

// counts reports whether a turn counts among those that its pool's policy places: there was a choice, and it was the
// policy's.
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
