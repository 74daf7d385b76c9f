package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/cost"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/split"
)

// chosen is what a decision has come to.
type chosen struct {
	hold *admission.Turn // to be held, and nothing else is set; nil where it is not

	answer  placement      // of the answer or of the whole request
	compute placement      // of the prefill leg
	why     fleet.SplitWhy // why it is split or not
	weighed fleet.Weighed
	passed  []PassedOver // see settled
}

// placement is the row chosen for a leg.
type placement struct {
	view   *pick.View // nil for a leg that is not placed
	who    *conversation.Found
	choice pick.Tentative
	scope  cost.Scope // in which the terms are reckoned, where the policy has not
}

// row is the one that was chosen.
func (p *placement) row() *pick.Candidate { return &p.view.Candidates[p.choice.Index] }

// chooseWhole chooses for a request without a placed leg.
func (r *readers) chooseWhole(q *asked, seen *noticed, c *chosen) (err error) {
	p, rule := q.pool, q.pool.Rule()
	why, undecided := rule.ByRequest(split.Pool{Splits: p.Splits(), Must: p.SplitsAlways()}, q.req, q.size.Tokens)
	var prefill filled
	if why.Splits() || undecided {
		answers := q.answerSearch(why, prices{})
		by := search{leg: fleet.LegPrefill, who: r.prefillSide(q), model: r.settleModel(q, seen, &answers)}
		if undecided {
			by.prices = r.prices(rule, by.leg)
		}
		if prefill, err = r.fillPrefill(q, seen, &by); err != nil {
			if r.noFallback && rule.When != fleet.WhenFree || p.SplitsAlways() && !p.ServesWhole() {
				return err
			}
			why, undecided = fleet.WholeNoPrefiller, false
		}
	}
	var priced prices
	if undecided {
		priced = r.prices(rule, fleet.LegUnsplit)
	}
	whole, hold, err := r.fillWhole(q, seen, q.answerSearch(why, priced))
	if err != nil || hold != nil {
		c.hold = hold
		return err
	}
	if prefill.view != nil && whole.forced == pick.ReasonHolder {
		why, undecided = fleet.WholePinned, false
	}
	var answer *pick.Tentative // who answers, where that is chosen before it is known how
	if undecided {
		var choice pick.Tentative
		var known bool
		if why, known = r.weigh(q, rule, prefill.view, &whole, c, &choice); known {
			answer = &choice
		}
	}
	c.why, c.passed = why, whole.passed
	if why.Splits() {
		r.split(q, prefill.view, whole.view, answer, c)
		return nil
	}
	c.answer = placement{view: whole.view, who: q.who}
	if p.Splits() && (answer == nil || answer.Reason == pick.ReasonWeighed) {
		c.answer.view = q.fillArrived(whole.view)
	}
	if undecided && whole.view.Splits {
		c.answer.scope = cost.ForSplit(c.answer.view)
	}
	if answer != nil {
		c.answer.choice = *answer
	} else {
		c.answer.choice = r.choose(q, c.answer.view, whole.forced)
	}
	return nil
}

// weigh decides about splitting by what the rows say. It reports whether who answers is chosen with it, in answer.
func (r *readers) weigh(
	q *asked,
	rule *split.Rule,
	prefill *pick.View,
	whole *filled,
	c *chosen,
	answer *pick.Tentative,
) (why fleet.SplitWhy, known bool) {
	switch rule.When {
	case fleet.WhenUncached:
		*answer = r.choose(q, whole.view, whole.forced)
		return rule.Uncached(whole.view, answer.Index), true
	case fleet.WhenFree:
		why, c.weighed, answer.Choice = r.weighFree(q, prefill, whole.view)
		return why, true
	default:
		decode := r.fillDecode(q, whole.view, split.ReadyMs(prefill))
		why, c.weighed = split.Time(prefill, whole.view, decode)
		return why, false
	}
}

// answerSearch is the search for those that may answer a request, which is split for this reason, or is not.
func (q *asked) answerSearch(why fleet.SplitWhy, p prices) search {
	return search{leg: fleet.LegUnsplit, who: q.who, decodes: why.Splits() && q.pool.SplitsAlways(), prices: p}
}

// fillWhole fills the rows of those that may take the whole request now. If none may, with any model that the request
// can get, it says how the turn is to be held.
func (r *readers) fillWhole(q *asked, seen *noticed, s search) (f filled, hold *admission.Turn, err error) {
	if f, err = r.fill(q, seen, &s); err != nil {
		return f, nil, err
	}
	if hold = r.admit(q, &f); hold == nil {
		return f, nil, nil
	}
	if next, ok := r.overflowsHold(q, &s, f.model, hold); ok {
		return r.fillWhole(q, seen, next) // at most once for each model of the alias
	}
	return f, hold, r.holdsFull(q, hold)
}

// split chooses endpoints for both legs: who answers, for a prompt that is computed as soon as can be, unless that is
// chosen already; who computes it for that one; and, where that takes longer, who answers it then.
func (r *readers) split(q *asked, prefill, whole *pick.View, answer *pick.Tentative, c *chosen) {
	ready := split.ReadyMs(prefill)
	decode := r.fillDecode(q, whole, ready)
	var answers pick.Tentative
	if answer != nil {
		answers = *answer
	} else {
		answers = r.choose(q, decode, "")
	}
	decoder := &decode.Candidates[answers.Index].Endpoint
	narrow(prefill, func(row int) bool { return split.Pairs(&prefill.Candidates[row].Endpoint, decoder) })
	if len(prefill.Candidates) == 0 { // the only possible prefiller is the decoder itself
		c.why = fleet.WholeNoPrefiller
		c.answer = placement{view: whole, who: q.who, choice: answers}
		return
	}
	c.compute = placement{view: prefill, who: &q.found[fleet.LegPrefill], choice: r.choose(q, prefill, "")}
	prefiller := c.compute.row()
	if ms := split.ReadyAt(prefill, prefiller); ms > ready {
		decode = r.fillDecode(q, whole, ms)
		if answer == nil {
			narrow(decode, func(row int) bool {
				return split.Pairs(&prefiller.Endpoint, &decode.Candidates[row].Endpoint)
			})
			answers = r.choose(q, decode, "")
		}
	}
	c.answer = placement{view: decode, who: q.who, choice: answers}
	if answers.Reason == pick.ReasonWeighed {
		c.answer.scope = cost.ForSplit(decode)
	}
	if prefill.Splits {
		c.compute.scope = cost.ForSplit(prefill)
	}
}

// choosePrefill chooses another prefiller for a request that keeps its decoder.
func (r *readers) choosePrefill(q *asked, seen *noticed, c *chosen) error {
	s := search{leg: fleet.LegPrefill, who: r.prefillSide(q), model: q.legModel()}
	f, err := r.fillPrefill(q, seen, &s)
	if err != nil {
		return err
	}
	r.keepPairs(q, &f, q.req.Decoder)
	if len(f.view.Candidates) == 0 {
		return r.noEndpoint(q, &s, f.model)
	}
	c.compute = placement{view: f.view, who: s.who, choice: r.choose(q, f.view, f.forced)}
	c.passed = f.passed
	return nil
}

// chooseDecode chooses another decoder for a prompt that is already computed.
func (r *readers) chooseDecode(q *asked, seen *noticed, c *chosen) error {
	s := search{leg: fleet.LegUnsplit, decodes: true, who: q.who, model: q.legModel()}
	f, err := r.fill(q, seen, &s)
	if err != nil {
		return err
	}
	r.keepPairs(q, &f, q.req.Prefiller)
	if len(f.view.Candidates) == 0 {
		return r.noEndpoint(q, &s, f.model)
	}
	decode := r.fillDecode(q, f.view, 0)
	c.why, c.passed = fleet.SplitKept, f.passed
	c.answer = placement{view: decode, who: q.who, choice: r.choose(q, decode, pinOf(f.forced))}
	return nil
}

// legModel is the model of the other leg of a request one leg of which is decided again, if it is of an alias whose
// models divide its requests.
func (q *asked) legModel() string {
	if q.pool.Divides() {
		return q.req.LegModel
	}
	return ""
}

// keepPairs drops the rows that cannot take one leg of a request whose other leg is at an endpoint.
func (r *readers) keepPairs(q *asked, f *filled, other string) {
	ep := r.endpoints.Named(other)
	if !ep.Exists() {
		return
	}
	at := pick.Endpoint{Slot: ep.Slot(), Kind: ep.Kind(), Model: f.model} // the model that the rows have
	if m, ok := q.pool.MemberAt(ep); ok && at.Model == "" {
		at.Model = m.Model()
	}
	narrow(f.view, func(row int) bool { return split.Pairs(&at, &f.view.Candidates[row].Endpoint) })
}

// prefillSide is the conversation in the scope of the prefill side.
func (r *readers) prefillSide(q *asked) *conversation.Found {
	who := &q.found[fleet.LegPrefill]
	r.conversations.FindOther(q.now, q.scope(fleet.LegPrefill), q.who, who)
	return who
}

// fillPrefill fills the view of possible prefillers.
func (r *readers) fillPrefill(q *asked, seen *noticed, s *search) (f filled, err error) {
	f, err = r.fill(q, seen, s)
	f.forced = pinOf(f.forced)
	return f, err
}

// pinOf is what forces the choice for one of two legs: a pin, not the place of a stored response.
func pinOf(forced pick.Reason) pick.Reason {
	if forced == pick.ReasonHolder {
		return ""
	}
	return forced
}

// prices are the costs of delays between prompts and answers, see pick.View.
type prices struct {
	splits                       bool
	interference, answerWaitCost float64
}

// prices says what they are for the rows of a leg, where the rows decide whether the request is split. They are 0 for a
// rule that compares no costs.
func (r *readers) prices(rule *split.Rule, l fleet.Leg) (p prices) {
	if rule.When == fleet.WhenUncached {
		return p
	}
	p.splits = true
	if !r.without.Has(ablation.Interruptions) {
		p.interference = rule.Interference()
	}
	if rule.When == fleet.WhenFree && l == fleet.LegUnsplit && !r.without.Has(ablation.AnswerCost) {
		p.answerWaitCost = split.AnswerWaitCost
	}
	return p
}

// weighFree decides about splitting without roles, and which endpoint answers.
func (r *readers) weighFree(q *asked, prefill, whole *pick.View) (fleet.SplitWhy, fleet.Weighed, pick.Choice) {
	f, decode := &q.free, whole
	f.Begin(prefill, whole)
	for i, row := range f.Prefiller {
		if row >= 0 {
			decode = r.fillDecode(q, whole, f.ReadyMs(i))
			f.AddPairs(i, decode)
		}
	}
	why, w, row := f.Choose(decode)
	return why, w, pick.Choice{Index: row, Reason: pick.ReasonWeighed}
}

// choose asks the leg's policy if there is a choice. The policy changes nothing before commit.
func (r *readers) choose(q *asked, v *pick.View, forced pick.Reason) pick.Tentative {
	switch {
	case forced != "":
		return pick.Tentative{Choice: pick.Choice{Index: 0, Reason: forced}}
	case len(v.Candidates) == 1:
		if v.Home == 0 {
			return q.pool.Only(v, pick.ReasonSession)
		}
		return q.pool.Only(v, pick.ReasonOnly)
	}
	return q.pool.Ask(v, q.req)
}
